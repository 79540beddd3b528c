"""The command `raftka`: its commands put together, exit codes, errors of one line."""

import sys
from typing import Annotated

import typer

from raftka.admin_client import AdminError
from raftka.cli.completion import prepare_to_complete
from raftka.cli.exit_codes import DONE, FAILED, INTERRUPTED, TERMINATED, UNJUDGED, USAGE, CommandError
from raftka.cli.lazy_group import LazyCommand, lazy_group
from raftka.dev.errors import DevError
from raftka.kafka.client import KafkaClientError
from raftka.pipeline.errors import PipelineError
from raftka.version import installed_version

# Newer versions of typer carry their own copy of click, older ones use click itself: these are theirs in either case.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]

COMMANDS = {
    "dev": LazyCommand("raftka.cli.dev", "app", "Run a cluster of brokers on this machine."),
    "topic": LazyCommand("raftka.cli.topic", "app", "Create, configure, trim, describe and delete topics."),
    "produce": LazyCommand("raftka.cli.produce", "produce", "Write lines, files or formatted input as records."),
    "consume": LazyCommand("raftka.cli.consume", "consume", "Print records, alone or in a consumer group."),
    "group": LazyCommand("raftka.cli.group", "app", "List, describe, seek and delete consumer groups."),
    "cluster": LazyCommand("raftka.cli.cluster", "app", "Show brokers, health and configuration of a cluster."),
    "partition": LazyCommand("raftka.cli.partition", "app", "Act on one partition."),
    "bench": LazyCommand("raftka.cli.bench", "bench", "Measure how fast a cluster takes and gives records."),
    "doctor": LazyCommand("raftka.cli.doctor", "doctor", "Say what is wrong with this machine or cluster."),
    "start": LazyCommand("raftka.cli.broker", "start", "Run a broker until SIGTERM or Ctrl-C."),
    "config": LazyCommand("raftka.cli.broker", "config_app", "The broker's configuration file."),
    "check": LazyCommand("raftka.cli.check", "check", "Judge histories of what clients saw."),
    "chaos": LazyCommand("raftka.cli.chaos", "chaos", "Run clients while faults happen, and judge what they saw."),
    "pipeline": LazyCommand("raftka.cli.pipeline", "app", "Run pipelines on Spark, and see how they stand."),
    "archive": LazyCommand("raftka.cli.archive", "app", "Verify, restore and compact archives of topics."),
    "telemetry": LazyCommand("raftka.cli.telemetry", "app", "Draw what brokers tell of their replicas."),
    "audit": LazyCommand("raftka.cli.audit", "audit", "Judge large histories in parallel, on Spark."),
    "completion": LazyCommand("raftka.cli.completion", "completion", "Print a script for a shell's completion."),
}

app = typer.Typer(
    name="raftka",
    cls=lazy_group(COMMANDS),
    help="Raftka: a Kafka-compatible broker in which every partition is a Raft group.",
    no_args_is_help=False,
    add_completion=False,
    # Plain help: rich alone takes longer to import than `--help` may take.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"raftka {installed_version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("version")
def _version() -> None:
    """Print the version."""
    _print_version(True)


def run(arguments: list[str]) -> int:
    """Run one command; errors become a line on stderr. Returns the exit code."""
    prepare_to_complete()
    try:
        result = app(arguments, prog_name="raftka", standalone_mode=False)
    except _UsageError as error:
        return _usage(error)
    except CommandError as error:
        return _complain(str(error), error.exit_code)
    except (DevError, KafkaClientError, AdminError, PipelineError) as error:
        return _complain(str(error), FAILED)
    except _ClickException as error:
        return _complain(error.format_message(), FAILED)  # type: ignore[attr-defined]
    except SystemExit as leave:
        # How typer leaves after it has completed a line for a shell, and when whoever read our output has seen enough,
        # as in `raftka consume orders | head`.
        return DONE if leave.code == DONE or isinstance(leave.__context__, BrokenPipeError) else FAILED
    except OSError as error:
        return _complain(str(error), FAILED)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    if isinstance(result, int):
        # 130 is typer's word for Ctrl-C, too.
        return result if result in (DONE, FAILED, UNJUDGED, USAGE, INTERRUPTED, TERMINATED) else FAILED
    return DONE


# Newer versions of typer check values with pydantic, whose words are for programmers.
_PLAIN_WORDS = (
    ("Value error, ", ""),
    ("Input should be a valid integer, unable to parse string as an integer", "must be a whole number"),
    ("Input should be a valid number, unable to parse string as a number", "must be a number"),
    ("Input should be greater than or equal to ", "must not be less than "),
    ("Input should be less than or equal to ", "must not be more than "),
)


def _plain(error: Exception) -> str:
    # Where a choice is missing, typer has each on a line of its own.
    text = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    for theirs, ours in _PLAIN_WORDS:
        text = text.replace(theirs, ours)
    # It is neither less nor more than anything, so a range refuses it with whichever bound is asked first.
    if _is_nan(error):
        text = f"{text.partition(': ')[0]}: nan is not a number"
    return text


def _is_nan(error: Exception) -> bool:
    """Return whether pydantic has refused a `nan`."""
    errors = getattr(error.__cause__, "errors", list)
    return any(str(each.get("input")).strip(" +-").lower() == "nan" for each in errors())


def _usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    if context is not None:
        print(context.get_usage(), file=sys.stderr)
    hint = f" (`{context.command_path} --help` explains)" if context is not None else ""
    return _complain(f"{_plain(error)}{hint}", USAGE)


def _complain(text: str, code: int) -> int:
    print(f"raftka: {text}", file=sys.stderr)
    return code
