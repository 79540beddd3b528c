"""`raftka produce --transactional`: all records of a transaction are written, or none."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.process.command_line import RAFTKA, SECONDS, DevFolder, dev_with_transactions, started

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevFolder]:
    with dev_with_transactions(tmp_path_factory.mktemp("dev") / "dev") as folder:
        yield folder


@pytest.fixture
def topic(dev: DevFolder, request: pytest.FixtureRequest) -> str:
    """A topic of this test's own, with one partition."""
    name = f"t{abs(hash(request.node.name))}"
    dev.client("topic", "create", name, "-p", "1")
    return name


def _committed(dev: DevFolder, topic: str) -> list[str]:
    return dev.client("consume", topic, "-e", "--read-committed").stdout.split()


def _typing(dev: DevFolder, *arguments: str) -> "AbstractContextManager[subprocess.Popen[str]]":
    """Return `raftka produce` that reads what the test writes to its stdin."""
    return started([*RAFTKA, "produce", *arguments], stdin=subprocess.PIPE, RAFTKA_BROKERS=dev.bootstrap)


def _type(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def _wait_state(dev: DevFolder, identity: str, state: str) -> None:
    deadline = time.monotonic() + SECONDS
    while identity not in dev.client("txn", "list", "--state", state).stdout:
        assert time.monotonic() < deadline, f"{identity} does not get to {state}"
        # The command asks the broker, which has nothing to wake it with.
        time.sleep(0.1)


def test_a_file_is_one_transaction_with_a_report_of_each_record(dev: DevFolder, topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\nthree\n")
    done = dev.client("produce", topic, "--transactional", str(lines), "-o", "json")
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [0, 1, 2]
    assert _committed(dev, topic) == ["one", "two", "three"]
    assert dev.client("produce", topic, "--transactional", str(lines)).stdout == f"3 records written to {topic}\n"
    # Offset 3 is the marker of the first transaction.
    assert dev.client("consume", topic, "-e", "-f", "%o ").stdout.split() == ["0", "1", "2", "4", "5", "6"]


def test_no_input_is_no_transaction(dev: DevFolder, topic: str) -> None:
    done = dev.client("produce", topic, "--transactional-id", "nothing")
    assert done.stdout == f"0 records written to {topic}\n"
    found = json.loads(dev.client("txn", "describe", "nothing", "-f", "json").stdout)
    assert found["state"] == "Empty"


def test_input_that_is_no_record_aborts_what_was_read_before_it(dev: DevFolder, topic: str) -> None:
    text = '{"value": "one"}\n{"value": "two"}\nnonsense\n'
    done = dev.client("produce", topic, "--transactional", "-f", "json", "-o", "json", stdin=text, code=1)
    assert done.stdout == "", "no report of a record that is not written"
    assert "line 3" in done.stderr
    assert "the transaction is aborted; 0 of the 2 lines that were sent are committed" in done.stderr
    assert _committed(dev, topic) == []


def test_a_commit_after_each_few_records_keeps_those_before_bad_input(dev: DevFolder, topic: str) -> None:
    text = "".join(f'{{"value": "{number}"}}\n' for number in range(5)) + "nonsense\n"
    arguments = ("--transaction-records", "2", "-f", "json", "-o", "%s\n")
    done = dev.client("produce", topic, *arguments, stdin=text, code=1)
    assert done.stdout.split() == ["0", "1", "2", "3"]
    assert "4 of the 5 lines that were sent are committed" in done.stderr
    assert _committed(dev, topic) == ["0", "1", "2", "3"]


def test_a_record_that_the_topic_refuses_aborts_its_transaction(dev: DevFolder, topic: str) -> None:
    dev.client("topic", "alter-config", topic, "--set", "max.message.bytes=1000")
    done = dev.client("produce", topic, "--transactional", stdin="small\n" + "x" * 2000 + "\n", code=1)
    assert "bytes is more than the limit of topic" in done.stderr
    assert "the transaction is aborted; 0 of the 2 lines" in done.stderr
    assert _committed(dev, topic) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_aborts_the_open_transaction(dev: DevFolder, topic: str, number: signal.Signals) -> None:
    with _typing(dev, topic, "--transactional-id", topic, "-o", "json") as process:
        _type(process, "one\n")
        _wait_state(dev, topic, "Ongoing")
        process.send_signal(number)
        out, error = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert out == ""
    assert "interrupted: the transaction is aborted; 0 of the 1 lines that were sent are committed" in error
    _wait_state(dev, topic, "CompleteAbort")
    assert _committed(dev, topic) == []


def test_a_second_producer_of_the_same_id_ends_the_first(dev: DevFolder, topic: str) -> None:
    with _typing(dev, topic, "--transactional-id", topic) as process:
        _type(process, "one\n")
        _wait_state(dev, topic, "Ongoing")
        dev.client("produce", topic, "--transactional-id", topic, stdin="two\n")
        out, error = process.communicate("three\n", timeout=SECONDS)
    assert process.returncode == 1
    assert out == ""
    assert f"another producer has begun as {topic!r}" in error
    assert _committed(dev, topic) == ["two"]


def test_a_transaction_that_takes_too_long_is_aborted_by_the_brokers(dev: DevFolder, topic: str) -> None:
    with _typing(dev, topic, "--transactional-id", topic, "--transaction-timeout", "1") as process:
        _type(process, "one\n")
        _wait_state(dev, topic, "CompleteAbort")
        _, error = process.communicate("two\n", timeout=SECONDS)
    assert process.returncode == 1
    assert "or the transaction took longer than 1 s (--transaction-timeout)" in error
    assert _committed(dev, topic) == []


def test_what_cannot_be_a_transaction_is_refused_with_its_reason(dev: DevFolder, topic: str) -> None:
    done = dev.client("produce", topic, "--transactional", "--acks", "1", stdin="one\n", code=64)
    assert "transactions need --acks all" in done.stderr
    done = dev.client("produce", topic, "--transactional-id", "", stdin="one\n", code=64)
    assert "must not be empty" in done.stderr
    done = dev.client("produce", topic, "--transaction-timeout", "9000", "--transactional", stdin="one\n", code=1)
    assert "the brokers let no transaction take 9000 s: lower --transaction-timeout" in done.stderr
    assert _committed(dev, topic) == []
