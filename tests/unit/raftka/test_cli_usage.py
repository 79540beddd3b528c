"""What the command line says without any broker: help, usage errors, exit codes."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.cli.root import COMMANDS as COMMANDS_TABLE
from raftka.cli.root import run
from raftka.config import load_config
from raftka.config_descriptor import read_config
from raftka.config_options import OPTIONS

COMMANDS = (
    *("start", "config", "config example", "version", "dev", "dev status", "dev stop", "dev logs", "dev kill"),
    *("dev restart", "topic", "topic create", "topic list", "topic describe", "topic delete", "produce", "consume"),
    *("topic alter-config", "topic add-partitions", "topic trim-prefix", "group", "group list", "group describe"),
    *("group seek", "group delete", "cluster", "cluster info", "cluster health", "cluster config"),
    *("cluster config list", "cluster config get", "cluster config set", "cluster config unset", "cluster log-level"),
    *("debug", "debug log", "debug bundle"),
    *(
        "broker",
        "broker list",
        "broker decommission",
        "broker replace",
        "partition",
        "partition move",
        "partition moves",
        "partition cancel",
        "topic alter-replication",
    ),
    *("txn", "txn list", "txn describe", "txn find-hanging", "txn abort"),
    *("partition transfer-leadership", "bench", "doctor", "check", "chaos", "completion"),
)
# Nothing listens there: port 1 needs privileges and is assigned to a protocol that nobody runs.
NOBODY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """`raftka dev` sets handlers for the rest of its process, which here is that of other tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RAFTKA_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Usage: raftka")
    assert shown.err == ""


@pytest.mark.parametrize(("columns", "most"), [("20", 50), ("60", 58), ("200", 78), ("0", 78), ("wide", 78)])
def test_a_help_fits_the_terminal(
    columns: str, most: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["consume", "--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= most


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "Commands:" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_version_is_printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    assert capsys.readouterr().out.startswith("raftka ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("frobnicate", "no such command 'frobnicate' (`raftka --help` explains)"),
        ("--frobnicate", "no such option '--frobnicate' ("),
        ("topc list", "no such command 'topc': did you mean topic?"),
        ("topic lst", "no such command 'lst': did you mean list?"),
        ("topic create t --partitons 3", "no such option '--partitons': did you mean --partitions?"),
        ("dev --no-ephemeral", "no such option '--no-ephemeral': did you mean --ephemeral?"),
        ("topic", "Missing command"),
        ("topic create", "Missing argument"),
        ("topic create t -p none", "Invalid value for '--partitions'"),
        ("topic create t -p 0", "Invalid value for '--partitions'"),
        ("topic create t -c key", "-c key: must be KEY=VALUE"),
        ("topic create t -c key=1 -c key=2", "-c key=2: key is set twice"),
        ("topic list --format xml", "xml"),
        ("topic describe t --admin nowhere", "is not HOST:PORT"),
        ("produce", "Missing argument"),
        ("produce t --acks 2", "'2'"),
        ("produce t --key a --key-separator b", "exclude each other"),
        ("consume t --offset middle", "must be start, end, N, -N or @TIME"),
        ("consume t --offset @noon", "must be @ and a date"),
        ("consume t --group g --partition 1", "exclude each other"),
        ("consume t --offset stored", "needs --group, which has committed offsets"),
        ("consume t -n 0", "Invalid value for '-n' / '--count': must be at least 1 ("),
        ("consume t -p x", "must be an integer ("),
        ("bench --rate x", "Invalid value for '--rate': must be a number ("),
        ("dev -n 40", "must be at most 31 ("),
        ("topic list -f yaml", "Invalid value for '--format' / '-f': 'yaml' is not one of 'text', 'json'"),
        ("consume t --group g --offset 3", "with --group, only start or end is allowed"),
        ("consume t --format %q", "the directives are"),
        ("produce t --format %k%s", "text is needed between %k and %s"),
        ("produce t --format json --key-separator :", "needs --format text"),
        ("produce t --header =1", "a header must be NAME=VALUE"),
        ("produce t --header \udcff=1", "header name '\\udcff' is not UTF-8"),
        (r"produce t --format '%k\n'", "without %s every value is null"),
        ("produce t --timeout nan", "Invalid value for '--timeout': nan is not a number ("),
        ("produce t --output xml", "--output xml: must be text, json or a format"),
        ("produce t --compression rar", "'rar'"),
        ("group seek g", "use either --to or --to-group"),
        ("group seek g --to end --to-group h", "use either --to or --to-group"),
        ("group seek g --to end --topic t:x", "must be TOPIC or TOPIC:0,1"),
        ("group delete", "Missing argument"),
        ("group describe ''", "the name of a group must not be empty"),
        ("group delete g ''", "the name of a group must not be empty"),
        ("group seek '' --to start", "the name of a group must not be empty"),
        ("group seek g --to-group ''", "the name of a group must not be empty"),
        ("consume t --group '' -e", "the name of a group must not be empty"),
        ("topic alter-config t", "nothing to change"),
        ("topic delete __consumer_offsets", "--internal deletes it all the same"),
        ("topic alter-config t --set a=1 --delete a", "--set names it too"),
        ("topic add-partitions t", "Missing option '--num'"),
        ("topic trim-prefix t", "Missing option '--offset'"),
        ("cluster config set a", "set a: must be KEY=VALUE"),
        ("topic trim-prefix __consumer_offsets -o 1", "__consumer_offsets is an internal topic"),
        ("bench --size 1", "Invalid value for '--size'"),
        ("bench --rate inf", "Invalid value for '--rate': must be at most"),
        ("bench --rate nan", "Invalid value for '--rate': nan is not a number ("),
        ("bench --rate 1e-320", "must be 0 or at least 0.001"),
        ("bench -t orders -p 7", "--partitions and --replicas need a new topic"),
        ("bench -t orders -r 2", "--partitions and --replicas need a new topic"),
        ("bench -t __consumer_offsets", "is an internal topic"),
        ("doctor disk", "'disk'"),
        ("doctor --brokers bogus", "'bogus' is not HOST:PORT"),
        ("completion tcsh", "'tcsh'"),
        ("completion", "bash, zsh, fish"),
        ("consume t --format xml", "must be text, json or a format"),
        ("dev -n 0", "Invalid value for '--nodes'"),
        ("dev --port 70000", "Invalid value for '--port'"),
        ("dev --port 0 status", "put options after the command"),
        ("dev kill one", "Invalid value for 'NODE'"),
        ("topic list --brokers localhost:9092,", "'' is not HOST:PORT"),
        ("topic list --brokers bogus", "'bogus' is not HOST:PORT"),
        ("consume t --brokers localhost:9092,other", "'other' is not HOST:PORT"),
        ("topic describe t --admin a:1,b:1", "one address is wanted, not a list"),
        ("start", "node.id is not set"),
        ("start --node-id one", "must be an integer"),
        ("start --node-id 1 --kafka-address 192.0.2.1 --kafka-prot 1", "did you mean --kafka-port"),
    ],
)
def test_a_usage_error_is_one_clear_line_and_exit_code_64(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is wrong with the words is said before any broker is asked.
    monkeypatch.setenv("RAFTKA_BROKERS", NOBODY)
    assert run(shlex.split(arguments)) == 64
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.splitlines()[-1]
    assert last.startswith("raftka: ")
    assert words in last


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (f"topic list --brokers {NOBODY}", f"no Kafka broker answers at {NOBODY}: Connection refused"),
        (f"topic create t --brokers {NOBODY}", "(--brokers or RAFTKA_BROKERS names others)"),
        (f"produce t --brokers {NOBODY}", "no Kafka broker answers"),
        (f"consume t --brokers {NOBODY}", "no Kafka broker answers"),
        (f"consume t -g g -o stored --brokers {NOBODY}", "no Kafka broker answers"),
        (f"produce t missing.txt --brokers {NOBODY}", "missing.txt: no such file"),
        (f"produce t / --brokers {NOBODY}", "/: is a directory"),
        (f"produce t /dev/null --brokers {NOBODY}", "no Kafka broker answers"),
        (f"topic delete __consumer_offsets --internal --brokers {NOBODY}", "no Kafka broker answers"),
        (f"group list --brokers {NOBODY}", "no Kafka broker answers"),
        (f"group seek g --to end --brokers {NOBODY}", "no Kafka broker answers"),
        (f"topic trim-prefix t -o end --brokers {NOBODY}", "no Kafka broker answers"),
        (f"topic describe t --admin http://{NOBODY}/ --brokers {NOBODY}", "no Kafka broker answers"),
        (f"cluster config list --brokers {NOBODY}", "no Kafka broker answers"),
        (f"cluster log-level raft DEBUG --brokers {NOBODY}", "no Kafka broker answers"),
        (f"bench --brokers {NOBODY}", "no Kafka broker answers"),
        (f"cluster health --brokers {NOBODY}", "no Kafka broker answers"),
        ("dev status", "there is no cluster in"),
        ("dev stop", "there is no cluster in"),
        ("dev kill 1", "there is no cluster in"),
        ("dev logs", "there is no cluster in"),
        ("dev --ephemeral --data-dir x", "leave out --data-dir"),
    ],
)
def test_a_failure_is_one_clear_line_and_exit_code_1(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert run(arguments.split()) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("raftka: ")
    assert shown.count("\n") == 1
    assert words in shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("start --node-id 1 --config missing.toml", "missing.toml: cannot be read"),
        ("start --node-id 1 --kafka-address 192.0.2.1", "--insecure"),
    ],
)
def test_a_configuration_that_would_be_refused_again_is_one_line_and_exit_code_78(
    arguments: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments.split()) == 78
    shown = capsys.readouterr().err
    assert shown.startswith("raftka: ")
    assert shown.count("\n") == 1
    assert words in shown


def test_the_example_of_the_command_line_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "example"]) == 0
    path = tmp_path / "broker.toml"
    path.write_text(capsys.readouterr().out)
    assert load_config(file=path).node_id == 1


def test_start_has_a_flag_for_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["start", "--help"]) == 0
    shown = capsys.readouterr().out
    assert [option.key for option in OPTIONS if f"--{option.key.replace('.', '-')} " not in shown] == []


def test_start_becomes_the_broker_process_with_flags_over_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: commands.append(command))
    monkeypatch.setenv("RAFTKA_KAFKA_PORT", "2001")
    monkeypatch.setenv("RAFTKA_ADMIN_PORT", "2002")
    assert run(["start", "--node-id", "7", "--kafka-port", "3001"]) == 0
    *command, descriptor = commands[0]
    assert command == [sys.executable, "-I", "-u", "-m", "raftka.broker", "--node-id", "7", "--config-fd"]
    assert os.get_inheritable(int(descriptor))
    config = read_config(int(descriptor), 7)
    assert (config.node_id, config.kafka_port, config.admin_port) == (7, 3001, 2002)


# What `raftka --help` imports decides how long it takes; a clock would measure the machine as well.
HELP_MODULES = {
    *("raftka", "raftka.admin_client", "raftka.kafka.errors", "raftka.version", "raftka.dev", "raftka.dev.errors"),
    "raftka.kafka",
    *("raftka.pipeline", "raftka.pipeline.errors"),
    *("raftka.cli", "raftka.cli.root", "raftka.cli.lazy_group", "raftka.cli.interrupts", "raftka.cli.exit_codes"),
    *("raftka.cli.completion", "raftka.error_text"),
}
HEAVY = (*("confluent_kafka", "rich", "asyncio", "aiohttp", "http.client", "numpy", "msgspec", "raftka.broker"),)
# On top of what the interpreter imports by itself.
HELP_MODULES_MAX = 105
COMMAND_HELP_MODULES_MAX = 150


def modules_of(arguments: str) -> list[str]:
    """Return the modules that a command imports beyond those of the interpreter."""
    program = (
        "import sys; before = set(sys.modules); from raftka.cli.root import run;"
        f"run({arguments.split()!r}); print(*sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stderr.split()


def test_the_help_imports_the_names_of_commands_and_not_the_commands() -> None:
    found = modules_of("--help")
    assert {name for name in found if name.startswith("raftka")} == HELP_MODULES | {"raftka.cli.examples"}
    assert len(found) <= HELP_MODULES_MAX, found


def test_a_shell_completes_a_command_without_an_import_of_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RAFTKA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "raftka t")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert {name for name in modules_of("") if name.startswith("raftka")} == HELP_MODULES


@pytest.mark.parametrize(
    "command",
    [
        *("start", "dev", "topic", "produce", "consume", "bench", "doctor", "group seek", "cluster config get"),
        *("chaos", "pipeline", "archive", "debug log", "debug bundle"),
    ],
)
def test_no_help_loads_a_client_a_broker_or_much_else(command: str) -> None:
    found = modules_of(f"{command} --help")
    assert [name for name in HEAVY if name in found] == []
    assert len(found) <= COMMAND_HELP_MODULES_MAX, found


def test_every_command_is_where_the_table_says() -> None:
    for name, command in COMMANDS_TABLE.items():
        assert command.load().name == name
        assert command.summary.endswith(".")
