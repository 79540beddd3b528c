"""What is reported of records that are written, without any broker."""

import pytest
from confluent_kafka import Message

from raftka.cli import record_writer
from raftka.cli.exit_codes import GivenUpError
from raftka.cli.progress import WRITE_PATIENCE_SECONDS, Stopwatch
from raftka.cli.record_format import record_printer
from raftka.cli.record_input import Headers, InputRecord, Place
from raftka.cli.record_writer import RecordWriter, WriteRequest
from raftka.kafka import client as kafka_client
from raftka.kafka import quorum
from raftka.kafka.errors import NoQuorumError

# Nobody listens there.
REQUEST = WriteRequest(
    brokers="127.0.0.1:1",
    topic="t",
    count=1,
    partition=-1,
    acks="all",
    compression="none",
    timeout=600.0,
    linger_ms=0,
    headers=[],
)


def test_nobody_waits_for_records_on_their_way_who_does_not_want_to() -> None:
    is_urgent = False
    writer = RecordWriter(REQUEST, "lines", lambda _: None, lambda: None, lambda: is_urgent)
    writer.write(InputRecord(Place("", "line", 1), None, b"x", []))
    is_urgent = True
    with pytest.raises(GivenUpError, match="have acknowledged 0 of the 1 lines that were sent") as refusal:
        writer.finish()
    assert refusal.value.exit_code == 130


def _without_progress(monkeypatch: pytest.MonkeyPatch) -> tuple[RecordWriter, Stopwatch]:
    """Return a writer whose partitions no quorum serves, and a watch by which nothing has happened for long."""

    def no_quorum(*_: object) -> None:
        raise NoQuorumError([2, 3], 3)

    expired = Stopwatch(0.0)

    def not_asked(*_: object, **__: object) -> str:
        raise AssertionError("nothing else answers without a quorum, and each question takes time")

    monkeypatch.setattr(kafka_client, "check_quorum", no_quorum)
    monkeypatch.setattr(record_writer, "write_problem", not_asked)
    return RecordWriter(REQUEST, "lines", lambda _: None, lambda: None), expired


def _told(error: pytest.ExceptionInfo[NoQuorumError], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    return str(error.value), capsys.readouterr().err


TOLD = (
    "no quorum: brokers 2, 3 of 3 do not answer; start them",
    "raftka: brokers have acknowledged 0 of the 1 lines that were sent; the others may be written too\n",
)


def test_a_writer_that_sends_ends_where_no_quorum_can_acknowledge(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer, expired = _without_progress(monkeypatch)
    monkeypatch.setattr(writer, "_idle", expired)
    with pytest.raises(NoQuorumError) as error:
        writer.write(InputRecord(Place("", "line", 1), None, b"x", []))
    assert _told(error, capsys) == TOLD


def test_a_writer_that_waits_at_the_end_ends_where_no_quorum_can_acknowledge(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    writer, expired = _without_progress(monkeypatch)
    writer.write(InputRecord(Place("", "line", 1), None, b"x", []))
    monkeypatch.setattr(writer, "_idle", expired)
    with pytest.raises(NoQuorumError) as error:
        writer.finish()
    assert _told(error, capsys) == TOLD


def test_produce_ends_within_ten_seconds_without_progress() -> None:
    # What it asks then takes two rounds; before and after, librdkafka is looked at.
    assert WRITE_PATIENCE_SECONDS + 2 * quorum.ASK_SECONDS + 2 * record_writer._FLUSH_POLL_SECONDS < 10.0


def test_a_record_is_reported_with_its_headers_which_the_client_forgets() -> None:
    render = record_printer(r"%o %h %H\n")
    printed: list[bytes] = []
    writer = RecordWriter(REQUEST, "lines", lambda message: printed.append(render(message)), lambda: None)
    for offset, headers in enumerate[Headers]([[("a", b"1"), ("b", None)], []]):
        written = Message(topic="t", partition=0, offset=offset, key=b"k", value=b"v")
        writer._on_delivery(Place("", "line", offset + 1), headers, None, written)
    assert printed == [b"0 a=1,b 2\n", b"1  0\n"]
