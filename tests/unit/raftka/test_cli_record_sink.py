"""Where consumed records go."""

import time

import pytest
from confluent_kafka import Message

from raftka.cli.progress_bar import ProgressBar
from raftka.cli.record_sink import RecordSink


def test_what_was_printed_is_due_soon_in_a_steady_stream_too(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    sink = RecordSink(lambda message: message.value() + b"\n", ProgressBar("records", None))
    sink.print(Message(topic="t", partition=0, offset=0, value=b"a"))
    assert not sink.is_due
    now = 100.5
    assert sink.is_due
    sink.flush()
    assert not sink.is_due
    assert capfdbinary.readouterr().out == b"a\n"
