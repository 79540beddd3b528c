"""The command `raftka`: its commands put together, exit codes, errors of one line."""

import os
import sys

import click
from click.exceptions import Exit, NoSuchCommand, NoSuchOption

from raftka.admin_client import AdminError
from raftka.cli.completion import COMPLETE_VARIABLE, answer_shell
from raftka.cli.exit_codes import DONE, FAILED, INTERRUPTED, TERMINATED, UNAVAILABLE, UNJUDGED, USAGE, CommandError
from raftka.cli.lazy_group import LazyCommand, LazyGroup
from raftka.dev.errors import DevError
from raftka.error_text import reason_of, short_reason_of
from raftka.kafka.errors import KafkaClientError, NoQuorumError, NotServingError
from raftka.pipeline.errors import PipelineError
from raftka.version import installed_version

COMMANDS = {
    "dev": LazyCommand("raftka.cli.dev", "app", "Run a cluster of brokers on this machine."),
    "topic": LazyCommand("raftka.cli.topic", "app", "Create, describe, configure, trim and delete topics."),
    "produce": LazyCommand("raftka.cli.produce", "produce", "Write lines, files or formatted input as records."),
    "consume": LazyCommand("raftka.cli.consume", "consume", "Print records, alone or in a consumer group."),
    "group": LazyCommand("raftka.cli.group", "app", "List, describe, seek and delete consumer groups."),
    "cluster": LazyCommand("raftka.cli.cluster", "app", "Show brokers, health and configuration of a cluster."),
    "broker": LazyCommand("raftka.cli.brokers", "app", "List, drain, empty, replace and remove brokers."),
    "partition": LazyCommand("raftka.cli.partition", "app", "List partitions, and choose who leads them."),
    "txn": LazyCommand("raftka.cli.txn", "app", "List transactional ids; find and abort hanging transactions."),
    "bench": LazyCommand("raftka.cli.bench", "bench", "Measure the throughput and latency of a cluster."),
    "doctor": LazyCommand("raftka.cli.doctor", "doctor", "Find problems of this machine or cluster."),
    "debug": LazyCommand("raftka.cli.debug", "app", "Read logs offline, collect what helps to find a fault."),
    "start": LazyCommand("raftka.cli.broker", "start", "Run a broker until SIGTERM or Ctrl-C."),
    "config": LazyCommand("raftka.cli.broker", "config_app", "The broker's configuration file."),
    "check": LazyCommand("raftka.cli.check", "check", "Check histories of client operations for anomalies."),
    "chaos": LazyCommand("raftka.cli.chaos", "chaos", "Run clients during faults, and check their histories."),
    "pipeline": LazyCommand("raftka.cli.pipeline", "app", "Run, list and stop Spark pipelines."),
    "archive": LazyCommand("raftka.cli.archive", "app", "Verify, restore and compact archives of topics."),
    "telemetry": LazyCommand("raftka.cli.telemetry", "app", "Plot the telemetry of replicas."),
    "audit": LazyCommand("raftka.cli.audit", "audit", "Check large histories in parallel, on Spark."),
    "generate": LazyCommand("raftka.cli.generate", "app", "Print files for other programs: units, manifests, alerts."),
    "completion": LazyCommand("raftka.cli.completion", "completion", "Print a completion script for a shell."),
}


def _print_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        print(f"raftka {installed_version()}")
        context.exit()


@click.group(
    cls=LazyGroup,
    lazy_commands=COMMANDS,
    invoke_without_command=True,
    # Commands below inherit both.
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--version", is_flag=True, callback=_print_version, is_eager=True, expose_value=False, help="Print the version."
)
@click.pass_context
def app(context: click.Context) -> None:
    """Raftka: a Kafka-compatible broker in which every partition is a Raft group."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("version")
def _version() -> None:
    """Print the version."""
    print(f"raftka {installed_version()}")


def run(arguments: list[str]) -> int:
    """Run one command; errors become a line on stderr. Returns the exit code."""
    try:
        if os.environ.get(COMPLETE_VARIABLE):
            return answer_shell(app)
        with app.make_context("raftka", list(arguments), terminal_width=_help_width()) as context:
            result = app.invoke(context)
    except Exit as leave:
        result = leave.exit_code
    except click.UsageError as error:
        return _usage(error)
    except click.ClickException as error:
        return _complain(error.format_message(), FAILED)
    except CommandError as error:
        return _complain(str(error), error.exit_code)
    except NoQuorumError as error:
        return _complain(str(error), UNAVAILABLE)
    except (DevError, KafkaClientError, AdminError, PipelineError) as error:
        return _complain(_words_of_refusal(error), FAILED)
    except BrokenPipeError:
        # Whoever read our output has seen enough, as in `raftka consume orders | head`.
        return DONE
    except OSError as error:
        return _complain(_words_of(error), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    if isinstance(result, int):
        return result if result in (DONE, FAILED, UNJUDGED, USAGE, INTERRUPTED, TERMINATED) else FAILED
    return DONE


def _words_of_refusal(error: DevError | KafkaClientError | AdminError | PipelineError) -> str:
    # The kinds of it know more: nothing is answered, or it is no Kafka.
    if type(error) is not NotServingError:
        return str(error)
    # Imported here, for the sake of `--help`.
    from raftka.cli.unserved import with_own_words

    return str(with_own_words(error))


def _words_of(error: OSError) -> str:
    is_of_stdout = error.errno is not None and error.filename is None and _fails_as(error)
    return f"cannot write to stdout: {short_reason_of(error)}" if is_of_stdout else reason_of(error)


def _fails_as(error: OSError) -> bool:
    """Return whether stdout fails so, too: what it could not write is still in its buffer, and fails again."""
    try:
        sys.stdout.flush()
        # Without a buffer (PYTHONUNBUFFERED) a device such as /dev/full says so of no bytes, too.
        os.write(sys.stdout.fileno(), b"")
    except OSError as again:
        return again.errno == error.errno
    return False


def _help_width() -> int:
    """Return the columns of a help: those of the terminal less 2, from 50 to 78, as click has them.

    click asks shutil, whose import loads three libraries for compression: a tenth of the time of a `--help`.
    """
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(1).columns
        except OSError:
            columns = 0
    return max(min(columns or 80, 80) - 2, 50)


def _usage(error: click.UsageError) -> int:
    context = error.ctx
    if context is not None:
        print(context.get_usage(), file=sys.stderr)
    hint = f" (`{context.command_path} --help` explains)" if context is not None else ""
    if isinstance(error, (NoSuchOption, NoSuchCommand)):
        what, question = _unknown(error)
        return _complain(f"{what}: {question}" if question else f"{what}{hint}", USAGE)
    # Where a choice is missing, click has each on a line of its own.
    return _complain(f"{' '.join(error.format_message().split())}{hint}", USAGE)


def _unknown(error: NoSuchOption | NoSuchCommand) -> tuple[str, str]:
    """Return what there is none of, and a question about what was meant instead, which may be empty."""
    # Imported here: only whoever has mistyped needs it.
    from raftka.suggestions import did_you_mean

    context = error.ctx
    assert context is not None
    if isinstance(error, NoSuchCommand):
        assert isinstance(context.command, click.Group)
        known = context.command.list_commands(context)
        return f"no such command {error.command_name!r}", did_you_mean(error.command_name, known)
    options = [name for each in context.command.get_params(context) for name in [*each.opts, *each.secondary_opts]]
    long_options = [name for name in options if name.startswith("--")]
    return f"no such option {error.option_name!r}", did_you_mean(error.option_name, long_options)


def _complain(text: str, code: int) -> int:
    print(f"raftka: {text}", file=sys.stderr)
    return code
