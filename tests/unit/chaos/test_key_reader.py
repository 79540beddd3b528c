"""The reader of `raftka chaos --workload txn`: it gets through aborted records, however many polls they take."""

from types import SimpleNamespace
from typing import Any

import pytest

from raftka.chaos import transactors
from raftka.chaos.transactors import KeyReader

_ABORTED = None


class Consumer:
    """As librdkafka's: a poll passes over so many aborted records at most, and tells of none of them."""

    def __init__(self, log: list[str | None], passed_per_poll: int) -> None:
        self.log = log
        self.passed_per_poll = passed_per_poll
        self.assigned: list[int] = []
        self._next = 0
        self._told_end = -1

    def assign(self, partitions: list[Any]) -> None:
        (one,) = partitions
        self.assigned.append(one.offset)
        self._next, self._told_end = one.offset, -1

    def poll(self, seconds: float) -> object | None:
        for _ in range(self.passed_per_poll):
            if self._next >= len(self.log):
                break
            offset, value = self._next, self.log[self._next]
            self._next += 1
            if value is not None:
                return message(offset, value.encode())
        if self._next < len(self.log) or self._told_end == self._next:
            return None
        self._told_end = self._next
        return message(self._next, None)


def message(offset: int, value: bytes | None) -> object:
    """A record, or without a value the end of the partition."""
    error = SimpleNamespace(name=lambda: "_PARTITION_EOF") if value is None else None
    return SimpleNamespace(error=lambda: error, offset=lambda: offset, value=lambda: value)


def reader_of(monkeypatch: pytest.MonkeyPatch, consumer: Consumer) -> KeyReader:
    monkeypatch.setattr(transactors, "new_consumer", lambda *_, **__: consumer)
    return KeyReader("h:1")


def test_a_final_read_gets_through_aborted_records_that_take_many_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    log = ["1.1", *[_ABORTED] * 100, "1.2", *[_ABORTED] * 50]
    reader = reader_of(monkeypatch, Consumer(log, passed_per_poll=10))
    polls = iter(range(50))
    found = reader.read_all("t", 0, len(log), lambda: next(polls, None) is None)
    assert found == [(0, "1.1"), (101, "1.2")]
    assert next(polls, None) is not None, "it was given up"


def test_a_reader_that_comes_back_to_a_partition_goes_on_behind_aborted_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = Consumer(["1.1", *[_ABORTED] * 25, "1.2"], passed_per_poll=10)
    reader = reader_of(monkeypatch, consumer)
    assert [reader.read("t", 0, position) for position in (0, 1, 1)] == [[(0, "1.1")], [], [(26, "1.2")]]
    assert consumer.assigned == [0]


def test_a_reader_of_another_partition_or_position_begins_there(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Consumer(["1.1", "1.2", _ABORTED, _ABORTED, "1.3"], passed_per_poll=1)
    reader = reader_of(monkeypatch, consumer)
    assert reader.read("t", 0, 0) == [(0, "1.1"), (1, "1.2")]
    assert reader.read("t", 1, 2) == []
    assert reader.read("t", 0, 1) == [(1, "1.2")]
    assert consumer.assigned == [0, 2, 1]


def test_an_end_that_was_told_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(monkeypatch, Consumer(["1.1", _ABORTED], passed_per_poll=10))
    for _ in range(2):
        assert reader.read_all("t", 0, 2, lambda: False) == [(0, "1.1")]
