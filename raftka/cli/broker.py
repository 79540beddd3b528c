"""`raftka start`, which becomes a broker process, and `raftka config`."""

import os
from typing import Any

import click

from raftka.cli.exit_codes import ConfigurationError, UsageError
from raftka.cli.lazy_group import Command, CommandGroup
from raftka.cli.param_types import PATH
from raftka.config import ConfigError, load_config, render_example
from raftka.config_options import OPTIONS, Option

_METAVARS = {"int": "N", "float": "X", "string": "TEXT", "host": "HOST", "list": "A,B,..."}
_CONFIG_HELP = "TOML configuration file; `raftka config example` prints one."


@click.group("config", cls=CommandGroup)
def config_app() -> None:
    """Print an example of a broker's configuration file."""


@config_app.command("example")
def example() -> None:
    """Print a commented TOML file with every option and its default."""
    print(render_example(), end="")


def _start(**arguments: Any) -> None:
    """Run a broker until SIGTERM or Ctrl-C. Flags override RAFTKA_* variables, which override the file."""
    file = arguments.pop("config")
    flags = {option.key: arguments[option.attribute] for option in OPTIONS}
    try:
        config = load_config({key: value for key, value in flags.items() if value is not None}, os.environ, file)
    except ConfigError as error:
        raise (UsageError if error.is_usage else ConfigurationError)(str(error)) from None
    # Imported here, for the sake of `--help`.
    from raftka.config_descriptor import config_descriptor
    from raftka.dev.launcher import broker_command
    from raftka.harmless_signals import harmless_signals_blocked

    descriptor = config_descriptor(config.to_json())
    os.set_inheritable(descriptor, True)
    command = broker_command(config.node_id, descriptor)
    # The variables are in the configuration already, and the broker is to be this very process.
    with harmless_signals_blocked():
        os.execv(command[0], command)


def _flag(option: Option) -> click.Option:
    """Return the flag of one option; values stay text, for the configuration checks them and names the key."""
    flag = "--" + option.key.replace(".", "-")
    default = option.default_text or ("" if option.default in (None, (), False) else str(option.default))
    words = option.doc + (f" [default: {default}]" if default else "")
    if option.kind == "bool":
        return click.Option([f"{flag}/--no-{flag[2:]}", option.attribute], default=None, help=words)
    metavar = "|".join(option.choices) or _METAVARS[option.kind]
    return click.Option([flag, option.attribute], metavar=metavar, help=words)


# One flag for each option of the table, so that neither can lack what the other has.
start = Command(
    "start",
    callback=_start,
    help=_start.__doc__,
    params=[
        click.Option(["--config"], type=PATH, metavar="FILE", help=_CONFIG_HELP),
        *(_flag(option) for option in OPTIONS),
    ],
)
