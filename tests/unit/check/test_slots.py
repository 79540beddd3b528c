"""A table of offsets says what sorting and searching says, and is not made where holes are too large for it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.check.log import index as log_index
from raftka.check.log.builder import LogHistoryBuilder
from raftka.check.operations import Poll, Send
from raftka.check.slots import Slots, is_repeated

PARTITIONS = 3
OFFSETS = st.integers(100, 109)
PAIRS = st.lists(st.tuples(st.integers(0, PARTITIONS - 1), OFFSETS), min_size=6, max_size=30)


def columns(pairs):
    return np.array(pairs, np.int64).reshape(-1, 2).T


@given(PAIRS)
def test_slots_are_as_partitions_and_offsets_are(pairs):
    tp, offsets = columns(pairs)
    slots = Slots.over(PARTITIONS, [tp], [offsets])
    assert slots is not None
    taken = np.flatnonzero(slots.is_taken([slots.of(tp, offsets)]))
    assert list(zip(*(each.tolist() for each in slots.places(taken)), strict=True)) == sorted(set(pairs))


@given(PAIRS)
def test_what_is_there_twice_is_repeated(pairs):
    assert is_repeated(PARTITIONS, *columns(pairs)).tolist() == [pairs.count(pair) > 1 for pair in pairs]


@pytest.mark.parametrize("far", [10**4, 2**63 - 1])
def test_of_a_log_with_large_holes_there_is_no_table(far):
    tp, offsets = columns([(0, 0), (0, far), (1, 0), (1, far), (2, far)])
    assert Slots.over(PARTITIONS, [tp], [offsets]) is None
    assert is_repeated(PARTITIONS, tp, offsets).all()


def test_of_nothing_there_are_no_slots():
    slots = Slots.over(PARTITIONS, [columns([])[0]], [columns([])[1]])
    assert slots is not None
    assert slots.ends.tolist() == [0, 0, 0]


@given(PAIRS, st.data())
def test_an_index_is_the_same_with_a_table_and_without(pairs, data):
    polled = data.draw(st.lists(st.sampled_from(pairs)))
    builder = LogHistoryBuilder()
    sends = [Send("ok", n, n, f"t-{tp}", "all", f"v{n}", ret=n + 1, off=offset) for n, (tp, offset) in enumerate(pairs)]
    polls = [
        Poll("ok", 100 + n, n, f"t-{tp}", [(offset, f"v{pairs.index((tp, offset))}")], ret=n + 2, final=True)
        for n, (tp, offset) in enumerate(polled)
    ]
    builder.add(1, [*sends, *polls])
    history = builder.build()
    with_table, without = (log_index.LogIndex(history, log_index.Level.QUORUM_ACK) for _ in range(2))
    without._slots = None
    assert with_table._slots is not None
    for name in ("offsets", "position", "claim_position", "known_since", "first_ended"):
        assert getattr(with_table, name).tolist() == getattr(without, name).tolist(), name
