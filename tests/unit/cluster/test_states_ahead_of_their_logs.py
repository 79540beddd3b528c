"""RFC 0021 section 3: a state that was restored may be ahead of its log, and does not know what is open below.

The log has lost its end. A transaction begins in what is left, and its ABORT was in what is lost: the state as of that
has forgotten it.
"""

from types import SimpleNamespace

import pytest
from producer_batches import marker, transactional
from test_producer_transactions import PRODUCER, Log

from cluster import readable_end
from cluster.producer_state import ProducerState
from cluster.readable_end import ReadableEnd
from model.ids import Index, Offset
from raft.errors import NotLeaderError


def _nothing_is_stable_until_the_log_has_reached_the_state() -> None:
    log = Log()
    first = log.open()
    log.append(transactional(PRODUCER, 1), marker(PRODUCER, first, is_commit=False))
    log.commit()
    state = ProducerState(lambda: 0, log.options)
    list(state.restore(log.saved(), Index(3)))
    positions = SimpleNamespace(commit_index=Index(0), visible_index=Index(0))
    held = SimpleNamespace(start_offset=Offset(0), end_offset=lambda index: Offset(index))
    end = ReadableEnd(SimpleNamespace(name="t-0", state=positions, log=held), state)
    for entry in log.entries:
        positions.commit_index = positions.visible_index = entry.index
        state.note(entry)
        state.commit(entry.index)
        if entry.index < 3:
            assert end.stable_end(end.high_watermark) is None, "the records of what was aborted are shown"
            with pytest.raises(NotLeaderError):
                end.last_read(read_committed=True)
    assert end.last_stable_offset == end.high_watermark == 3


def test_nothing_is_stable_until_the_log_has_reached_what_its_state_is_as_of() -> None:
    _nothing_is_stable_until_the_log_has_reached_the_state()


def test_aborted_records_are_shown_if_a_state_ahead_of_its_log_is_believed(monkeypatch) -> None:
    monkeypatch.setattr(readable_end, "_is_known", lambda transactional, state: True)
    with pytest.raises(AssertionError, match="what was aborted are shown"):
        _nothing_is_stable_until_the_log_has_reached_the_state()
