"""Offsets in transactions in the state of a partition of `__consumer_offsets`: the design's schedules, and formats."""

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from offset_entries import commit_of, committed, marker_of, place, placed, txn_commit
from test_pending_offsets_model import PendingMachine

from cluster.groups.group_table import GroupTable
from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.pending_offsets import PendingOffsets
from cluster.groups.records import OffsetKey
from cluster.producer_errors import (
    InvalidProducerEpochError,
    MarkerRefusedError,
    NotAdmittedError,
    TransactionStateError,
)
from cluster.producer_table import ProducerOptions
from cluster.state_bounds import StateFullError, StateOptions
from cluster.transactions.log_state import TransactionalLogState
from model.control_batch import NO_PREPARE, Prepare
from model.ids import NO_INDEX, Index
from storage.errors import CorruptLogError
from storage.snapshot_file import STATE_BYTES_MAX


def replica(*entries, upto=None, **options):
    """Return the state behind these entries, committed up to an index, by default all."""
    state = OffsetsLogState(**options)
    for index, new in enumerate(entries, start=1):
        state.note(placed(new, index))
    state.commit(Index(len(entries) if upto is None else upto))
    return state


def offsets(state, group="g"):
    return {number: value.offset for (_, number), value in state.table.offsets(group).items()}


def test_an_offset_of_a_transaction_is_committed_by_its_marker_and_not_before():
    entries = [txn_commit(7, (place(), committed(5)))]
    state = replica(*entries)
    assert offsets(state) == {}
    assert state.is_pending("g")
    assert state.table.group_ids() == ["g"]
    state = replica(*entries, marker_of(7, 0, (1, 1)))
    assert offsets(state) == {0: 5}
    assert not state.is_pending("g")


def test_an_aborted_transaction_commits_nothing():
    state = replica(
        commit_of((place(), committed(3))),
        txn_commit(7, (place(), committed(5)), (place(1), committed(6))),
        marker_of(7, 1, (1, 1), is_commit=False),
    )
    assert offsets(state) == {0: 3}
    assert not state.is_pending("g")


def test_a_pending_offset_does_not_replace_one_that_was_committed_behind_it():
    """Schedule 8: pending at 10, plain commit at 12, COMMIT at 20."""
    entries = [
        txn_commit(7, (place(), committed(5))),
        commit_of((place(), committed(9))),
        marker_of(7, 0, (1, 1)),
    ]
    assert offsets(replica(*entries)) == {0: 9}
    # Through a snapshot at each entry as well: nobody has the indexes of those before it.
    for saved_at in range(1, 4):
        saved = b"".join(replica(*entries[:saved_at]).snapshot())
        state = OffsetsLogState()
        list(state.restore(saved, Index(saved_at)))
        for index, new in enumerate(entries, start=1):
            state.note(placed(new, index))
        state.commit(Index(3))
        assert offsets(state) == {0: 9}


def test_a_pending_offset_replaces_one_that_was_committed_before_it():
    entries = [
        commit_of((place(), committed(9))),
        txn_commit(7, (place(), committed(5))),
        marker_of(7, 1, (1, 1)),
    ]
    assert offsets(replica(*entries)) == {0: 5}


def test_the_newer_one_of_two_transactions_wins_whichever_ends_last():
    older, newer = txn_commit(7, (place(), committed(5))), txn_commit(8, (place(), committed(6)))
    assert offsets(replica(older, newer, marker_of(7, 0, (1, 1)), marker_of(8, 1, (1, 2)))) == {0: 6}
    assert offsets(replica(older, newer, marker_of(8, 1, (1, 1)), marker_of(7, 0, (1, 2)))) == {0: 6}
    ended = marker_of(8, 1, (1, 1), is_commit=False)
    assert offsets(replica(older, newer, ended, marker_of(7, 0, (1, 2)))) == {0: 5}


def test_a_deletion_takes_what_is_pending_with_it_as_in_kafka():
    deleted = [txn_commit(7, (place(), committed(5))), commit_of((place(), None))]
    assert not replica(*deleted).is_pending("g")
    assert offsets(replica(*deleted, marker_of(7, 0, (1, 1)))) == {}
    # What comes behind the deletion counts, in the same entry as well.
    again = commit_of((place(), None), (place(), committed(2)))
    assert offsets(replica(deleted[0], again, marker_of(7, 0, (1, 1)))) == {0: 2}
    assert offsets(replica(*deleted, txn_commit(7, (place(), committed(8))), marker_of(7, 0, (1, 1)))) == {0: 8}


def test_a_marker_that_is_truncated_has_ended_nothing():
    entries = [txn_commit(7, (place(), committed(5))), commit_of((place(), committed(9))), marker_of(7, 0, (1, 1))]
    state = replica(*entries, upto=1)
    state.truncate(Index(3))
    assert state.is_pending("g")
    assert state.transactions.open_of(7) is not None
    state.truncate(Index(2))
    # Nothing overtakes it any more.
    state.note(placed(entries[2], 2))
    state.commit(Index(2))
    assert offsets(state) == {0: 5}


def test_a_state_of_offsets_is_one_in_which_transactions_may_be_open():
    state = OffsetsLogState()
    assert isinstance(state, TransactionalLogState)
    state.visible = lambda: Index(9)
    assert state.producers.visible() == 9


def test_a_batch_that_opens_a_transaction_needs_a_guard_that_holds():
    state = OffsetsLogState()
    new = txn_commit(7, (place(), committed(5)))
    assert state.opens_transaction(new.payload)
    assert isinstance(state.admit(new), NotAdmittedError)
    guard = state.fences.guard(7)
    state.fences.fence(7, now=0.0)
    assert isinstance(state.admit(new._replace(guard=guard)), NotAdmittedError)
    assert state.admit(new._replace(guard=state.fences.guard(7))) is None
    state.note(placed(new, 1))
    # Behind the first nobody is asked.
    assert not state.opens_transaction(new.payload)
    assert state.admit(new) is None


def test_a_fenced_epoch_commits_no_offset_and_a_marker_ends_what_it_was_made_for():
    state = replica(txn_commit(7, (place(), committed(5)), epoch=1))
    assert isinstance(state.admit(marker_of(7, 3, (1, 1), epoch=2)), MarkerRefusedError)
    assert state.admit(marker_of(7, 0, (1, 1), epoch=2)) is None
    state.note(placed(marker_of(7, 0, (1, 1), epoch=2), 2))
    assert state.last_prepare(7) == (Prepare(1, 1), 2)
    state.commit(Index(2))
    assert state.last_prepare(7) == (Prepare(1, 1), NO_INDEX)
    old = txn_commit(7, (place(), committed(6)), epoch=1, guard=state.fences.guard(7))
    assert isinstance(state.admit(old), InvalidProducerEpochError)
    assert state.last_prepare(8) == (NO_PREPARE, NO_INDEX)


def test_no_more_transactions_are_open_than_producers_are_remembered():
    state = OffsetsLogState(producer_options=ProducerOptions(producers_max=1))
    state.note(placed(txn_commit(7, (place(), committed(5))), 1))
    refusal = state.admit(txn_commit(8, (place(), committed(5)), guard=state.fences.guard(8)))
    assert isinstance(refusal, TransactionStateError)


def test_a_full_table_takes_markers_and_no_pending_offset():
    state = OffsetsLogState(options=StateOptions(groups_bytes_max=150))
    state.note(placed(txn_commit(7, (place(), committed(5, "x" * 60))), 1))
    more = txn_commit(7, (place(1), committed(5)))
    assert isinstance(state.admit(more), StateFullError)
    used = state.fills()[0].used
    end = marker_of(7, 0, (1, 1))
    assert state.admit(end) is None
    state.note(placed(end, 2))
    assert state.fills()[0].used == used
    state.commit(Index(2))
    assert state.fills()[0].used < used
    assert offsets(state) == {0: 5}


def test_a_snapshot_has_room_for_producers_beside_the_table():
    options, producers = StateOptions(groups_bytes_max=STATE_BYTES_MAX), ProducerOptions()
    (fill, _) = OffsetsLogState(options=options, producer_options=producers).fills()
    assert fill.maximum + producers.state_bytes_max < STATE_BYTES_MAX


# -- formats ------------------------------------------------------------------------------------------------------

# As versions without transactions have written it: group "g" at 5 in partition 0 of topic "t".
FORMAT_1 = (
    b"\x01\x00\x00\x00\x0c\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"
    b"\x00\x00\x00\x18\x00\x03\x00\x00\x00\x00\x00\x00\x00\x05\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)


def test_a_state_without_transactions_is_read_and_written_as_before():
    state = OffsetsLogState()
    list(state.restore(FORMAT_1, Index(4)))
    assert offsets(state) == {0: 5}
    assert b"".join(state.snapshot()) == FORMAT_1
    assert b"".join(replica(commit_of((place(), committed(5)))).snapshot()) == FORMAT_1


def test_a_state_of_format_2_has_pending_offsets_and_producers():
    state = replica(
        commit_of((place(1), committed(4))),
        txn_commit(7, (place(), committed(5, "m"))),
        txn_commit(8, (place(), committed(6))),
        commit_of((place(), committed(9))),
        marker_of(8, 2, (3, 1)),
    )
    saved = b"".join(state.snapshot())
    assert saved[0] == 2
    again = OffsetsLogState()
    list(again.restore(saved, Index(5)))
    assert b"".join(again.snapshot()) == saved
    assert list(again.table.pending) == list(state.table.pending)
    assert again.is_pending("g")
    assert again.transactions.open_of(7).first_index == 2
    assert again.last_prepare(8) == (Prepare(3, 1), NO_INDEX)
    assert again.restored_index == 5
    assert [each.used for each in again.fills()] == [each.used for each in state.fills()]
    again.reset()
    assert (again.is_pending("g"), again.restored_index) == (False, NO_INDEX)


def test_a_state_of_format_2_that_cannot_be_read_is_refused_by_name():
    saved = b"".join(replica(txn_commit(7, (place(), committed(5)))).snapshot())
    for wrong in (saved[:5], saved[:30], saved[:-1], b"\x03" + saved[1:], saved + b"\x00"):
        with pytest.raises(CorruptLogError):
            list(OffsetsLogState().restore(wrong, Index(1)))
    # Of nobody's transaction, and of something else than an offset.
    rows = saved[: 9 + 17 + 4 + 12 + 4 + 24]
    with pytest.raises(CorruptLogError, match="not open"):
        list(OffsetsLogState().restore(rows, Index(1)))
    group = b"\x00\x00\x00\x05\x00\x02\x00\x01g" + b"\x00\x00\x00\x18" + b"\x00\x03" + bytes(22)
    with pytest.raises(CorruptLogError):
        list(GroupTable().decode(saved[:26] + group))


def test_large_states_of_format_2_are_written_and_read_in_steps():
    keys = [(place(number), committed(number)) for number in range(1000)]
    state = replica(txn_commit(7, *keys))
    parts = list(state.snapshot())
    assert len(parts) >= 10
    again = OffsetsLogState()
    assert len(list(again.restore(b"".join(parts), Index(1)))) >= 9
    assert list(again.table.pending) == list(state.table.pending)


# A transaction that begins above what the state is of.
@example(b"\x00\x04", 139)
@given(st.binary(max_size=120), st.integers(0, 200))
def test_any_bytes_of_format_2_are_a_state_or_a_named_error(data, kept):
    saved = b"".join(
        replica(
            txn_commit(7, (place(), committed(5))),
            commit_of((place(1), committed(4))),
            marker_of(8, 9, (1, 1)),
        ).snapshot()
    )
    for state in (b"\x02" + data, saved[:kept] + data, saved[:kept] + data + saved[kept + len(data) :]):
        again = OffsetsLogState()
        try:
            list(again.restore(state, Index(3)))
        except CorruptLogError:
            continue
        written = b"".join(again.snapshot())
        once_more = OffsetsLogState()
        list(once_more.restore(written, Index(3)))
        assert b"".join(once_more.snapshot()) == written


# -- planted bugs -------------------------------------------------------------------------------------------------

_END_SOME, _SETTLE_BESIDE = OffsetsLogState._end_some, OffsetsLogState.settle_beside

PLANTED = {
    "a pending offset replaces a newer one": (PendingOffsets, "overtake", lambda pending, place, index: None),
    "a deletion leaves what is pending": (
        OffsetsLogState,
        "settle_beside",
        lambda state, effects, room: _SETTLE_BESIDE(
            state, [each for each in effects if not isinstance(each[0], OffsetKey)], room
        ),
    ),
    "an abort applies what is pending": (
        OffsetsLogState,
        "_end_some",
        lambda state, end, room: _END_SOME(state, end._replace(is_commit=True), room),
    ),
    "a commit applies nothing": (
        OffsetsLogState,
        "_end_some",
        lambda state, end, room: _END_SOME(state, end._replace(is_commit=False), room),
    ),
    "a batch takes no room that one before it in its log has taken": (
        PendingOffsets,
        "get",
        lambda pending, key: (pending.of_producer(key.producer_id).get(key.place) or [None])[0],
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_the_model_of_pending_offsets_catches_a_planted_bug(monkeypatch, planted):
    monkeypatch.setattr(*PLANTED[planted])
    few = settings(
        max_examples=300,
        stateful_step_count=30,
        database=None,
        phases=[Phase.generate],
        derandomize=True,
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(PendingMachine, settings=few)
