"""What is reported of records that are written, without any broker."""

import pytest
from confluent_kafka import Message

from raftka.cli.exit_codes import GivenUpError
from raftka.cli.record_format import record_printer
from raftka.cli.record_input import Headers, InputRecord, Place
from raftka.cli.record_writer import RecordWriter, WriteRequest

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


def test_a_record_is_reported_with_its_headers_which_the_client_forgets() -> None:
    render = record_printer(r"%o %h %H\n")
    printed: list[bytes] = []
    writer = RecordWriter(REQUEST, "lines", lambda message: printed.append(render(message)), lambda: None)
    for offset, headers in enumerate[Headers]([[("a", b"1"), ("b", None)], []]):
        written = Message(topic="t", partition=0, offset=offset, key=b"k", value=b"v")
        writer._on_delivery(Place("", "line", offset + 1), headers, None, written)
    assert printed == [b"0 a=1,b 2\n", b"1  0\n"]
