"""`raftka start`, which becomes a broker process, and `raftka config`."""

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from raftka.cli.exit_codes import CommandError, UsageError
from raftka.config import ConfigError, load_config, render_example
from raftka.config_options import OPTIONS, Option

_METAVARS = {"int": "N", "string": "TEXT", "host": "HOST", "list": "A,B,..."}
_CONFIG_HELP = "TOML file; `raftka config example` prints one."

config_app = typer.Typer(help="The broker's configuration.", no_args_is_help=False)


@config_app.command("example")
def example() -> None:
    """Print a commented TOML file with every option and its default."""
    print(render_example(), end="")


def _start_command() -> Callable[..., None]:
    """Return `start` with one flag for each option of the table, so that neither can lack what the other has."""

    def start(**arguments: Any) -> None:
        """Run a broker until SIGTERM or Ctrl-C. Flags win over RAFTKA_* variables, these over the file."""
        file = arguments.pop("config")
        flags = {option.key: arguments[option.attribute] for option in OPTIONS}
        try:
            config = load_config({key: value for key, value in flags.items() if value is not None}, os.environ, file)
        except ConfigError as error:
            raise (UsageError if error.is_usage else CommandError)(str(error)) from None
        # Imported here, for the sake of `--help`.
        from raftka.dev.launcher import broker_command

        command = broker_command(config)
        # The variables are in the configuration already, and the broker is to be this very process.
        os.execv(command[0], command)

    parameters = [
        _parameter("config", Annotated[Path | None, typer.Option("--config", metavar="FILE", help=_CONFIG_HELP)])
    ]
    parameters += [_parameter(option.attribute, _annotation(option)) for option in OPTIONS]
    start.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    start.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return start


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _annotation(option: Option) -> Any:
    """Return the flag of one option; values stay text, for the configuration checks them and names the key."""
    flag = "--" + option.key.replace(".", "-")
    default = option.default_text or ("" if option.default in (None, (), False) else str(option.default))
    words = option.doc + (f" [default: {default}]" if default else "")
    if option.kind == "bool":
        return Annotated[bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", help=words, show_default=False)]
    metavar = "|".join(option.choices) or _METAVARS[option.kind]
    return Annotated[str | None, typer.Option(flag, metavar=metavar, help=words, show_default=False)]


start = _start_command()
