"""The ring of events: numbered without a gap, bounded, and each one a line of the log."""

import logging

import pytest

from cluster.events import EVENTS_MAX, TEXT_CHARACTERS_MAX, EventKind, Events
from model.ids import NodeId


class _Clock:
    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        self.ms += 1
        return self.ms


@pytest.fixture
def events() -> Events:
    return Events(NodeId(1), _Clock())


def test_an_event_is_a_line_of_the_log_and_is_kept(events: Events, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        events.record(logging.WARNING, EventKind.NODE_LOST, "node 2 lost")
        events.record(logging.INFO, EventKind.LEADER, "node 1 leads", partition="orders-0", term=3)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "node 2 lost"),
        (logging.INFO, "[orders-0 n1 t3] node 1 leads"),
    ]
    lost, leads = events.since(1)
    assert (lost.seq, lost.kind, lost.level, lost.text) == (1, EventKind.NODE_LOST, logging.WARNING, "node 2 lost")
    assert (leads.seq, leads.partition, leads.term) == (2, "orders-0", 3)
    assert events.boot < lost.at_ms < leads.at_ms


def test_a_reader_gets_what_is_kept_from_a_number_on(events: Events) -> None:
    assert events.since(1) == []
    for number in range(EVENTS_MAX + 10):
        events.record(logging.DEBUG, EventKind.LEADER, f"{number}")
    assert events.next_seq == EVENTS_MAX + 11
    assert [event.seq for event in events.since(0)] == list(range(11, EVENTS_MAX + 11))
    assert [event.seq for event in events.since(EVENTS_MAX + 8)] == [EVENTS_MAX + 8, EVENTS_MAX + 9, EVENTS_MAX + 10]
    assert events.since(EVENTS_MAX + 11) == []


def test_a_text_has_a_largest_length(events: Events) -> None:
    events.record(logging.DEBUG, EventKind.LEADER, "x" * 1_000)
    assert len(events.since(1)[0].text) == TEXT_CHARACTERS_MAX


def test_events_without_room_are_counted_and_the_oldest_kept_has_an_age(events: Events) -> None:
    assert events.lost() == (0, None)
    for number in range(EVENTS_MAX):
        events.record(logging.DEBUG, EventKind.LEADER, f"{number}")
    assert events.lost()[0] == 0
    for number in range(7):
        events.record(logging.DEBUG, EventKind.LEADER, f"{number}")
    count, age = events.lost()
    assert count == 7
    assert age is not None
    assert age > 0
