"""What is reported of records that are written, without any broker."""

from confluent_kafka import Message

from raftka.cli.record_format import record_printer
from raftka.cli.record_input import Headers, Place
from raftka.cli.record_writer import RecordWriter, WriteRequest


def test_a_record_is_reported_with_its_headers_which_the_client_forgets() -> None:
    render = record_printer(r"%o %h %H\n")
    printed: list[bytes] = []
    request = WriteRequest(
        brokers="127.0.0.1:1",
        topic="t",
        count=1,
        partition=-1,
        acks="all",
        compression="none",
        timeout=1.0,
        linger_ms=0,
        headers=[],
    )
    writer = RecordWriter(request, "lines", lambda message: printed.append(render(message)), lambda: None)
    for offset, headers in enumerate[Headers]([[("a", b"1"), ("b", None)], []]):
        written = Message(topic="t", partition=0, offset=offset, key=b"k", value=b"v")
        writer._on_delivery(Place("", "line", offset + 1), headers, None, written)
    assert printed == [b"0 a=1,b 2\n", b"1  0\n"]
