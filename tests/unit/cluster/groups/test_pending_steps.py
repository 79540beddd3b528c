"""What an entry ends of pending offsets is never one step's work, however much it is: counted in changes."""

import asyncio
from collections import Counter

import pytest
from offset_entries import commit_of, committed, marker_of, place, placed, txn_commit

from cluster.groups import offsets_log_state
from cluster.groups.group_table import GroupTable
from cluster.groups.offsets_log_state import OffsetsLogState
from model.ids import Index, Term
from raft.call_figures import CallFigures
from raft.replica_counts import ReplicaCounts
from raft.stepped_log_state import SteppedLogState
from runtime.gate import Gate
from storage.snapshot_file import STATE_BYTES_MAX

# Far more than a step may have, in changes.
MANY = 3000
STEP_MAX = 500


class EmptyLog:
    """What a stepped state asks a log."""

    start_index = Index(1)

    def term_at(self, index):
        return Term(1)


class Work:
    """Counts sizes and changes of records, by turns of the loop."""

    def __init__(self, monkeypatch):
        self.turn, self.done = 0, Counter()
        self._counts(monkeypatch, offsets_log_state, "record_size")
        self._counts(monkeypatch, GroupTable, "apply")

    def _counts(self, monkeypatch, owner, name):
        plain = getattr(owner, name)

        def counted(*arguments):
            self.done[self.turn] += 1
            return plain(*arguments)

        monkeypatch.setattr(owner, name, counted)

    def of(self, call, *arguments):
        """Return how much a call does."""
        self.turn += 1
        call(*arguments)
        return self.done[self.turn]

    async def settle(self, state, upto):
        """Settle the state as a replica does; return the most that one turn has done."""
        gate = Gate("test")
        stepped = SteppedLogState(EmptyLog(), state, 256, STATE_BYTES_MAX)
        stepped.attach(gate, ReplicaCounts(CallFigures(), None))
        self.turn += 1
        first = self.turn
        stepped.commit(Index(upto))
        while stepped.applied_index < upto:
            self.turn += 1
            await asyncio.sleep(0)
        await gate.close()
        return max(self.done[turn] for turn in range(first, self.turn + 1))


@pytest.fixture
def work(monkeypatch):
    return Work(monkeypatch)


def _noted(*entries):
    state = OffsetsLogState()
    for index, new in enumerate(entries, start=1):
        state.note(placed(new, index))
    return state


def _places(count):
    return [(place(number), committed(number)) for number in range(count)]


def test_the_note_of_a_marker_is_the_same_work_however_much_it_ends(work):
    few, many = _noted(txn_commit(7, *_places(2))), _noted(txn_commit(7, *_places(MANY)))
    marker = placed(marker_of(7, 0, (1, 1)), 2)
    assert work.of(many.note, marker) == work.of(few.note, marker)
    assert work.of(many.truncate, Index(2)) == work.of(few.truncate, Index(2))


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_marker_is_settled_in_steps(work, is_commit):
    state = _noted(txn_commit(7, *_places(MANY)), marker_of(7, 0, (1, 1), is_commit=is_commit))
    state.commit(Index(1))
    assert asyncio.run(work.settle(state, 2)) <= STEP_MAX * 3
    assert len(state.table.offsets("g")) == (MANY if is_commit else 0)
    assert not state.is_pending("g")
    assert state.transactions.open_of(7) is None


def test_a_place_is_pending_or_has_its_offset_at_each_step_of_a_marker():
    state = _noted(txn_commit(7, *_places(MANY)), marker_of(7, 0, (1, 1)))
    state.commit(Index(1))
    steps = 0
    while state.commit_some(Index(2)) < 2:
        steps += 1
        pending, offsets = state.table.pending.places("g"), state.table.offsets("g")
        assert len(pending) + len(offsets) == MANY
        assert not {each[1:] for each in pending} & set(offsets)
        assert state.applied_index == 1, "whoever waits for the marker waits for all of it"
        assert state.transactions.open_of(7) is None, "it is ended in the log"
    assert steps > 10
    assert state.applied_index == 2


def test_entries_are_admitted_noted_and_truncated_amid_a_marker():
    state = _noted(txn_commit(7, *_places(MANY)), marker_of(7, 0, (1, 1)))
    state.commit(Index(1))
    assert state.commit_some(Index(2)) == 1
    # One place that is not ended yet, one that is, and a new one.
    new = commit_of((place(MANY - 1), committed(5)), (place(), None), (place(MANY), committed(6)))
    assert state.admit(new) is None
    state.note(placed(new, 3))
    state.truncate(Index(3))
    state.note(placed(new, 3))
    state.commit(Index(3))
    offsets = state.table.offsets("g")
    assert (offsets["t", MANY - 1].offset, offsets["t", MANY].offset, ("t", 0) in offsets) == (5, 6, False)
    assert [fill.used for fill in state.fills()] == [len(b"".join(state.table.encode(()))) - 8, MANY]


def test_a_snapshot_is_taken_of_whole_markers_only(work):
    state = _noted(txn_commit(7, *_places(MANY)), marker_of(7, 0, (1, 1)))
    whole = _noted(txn_commit(7, *_places(MANY)), marker_of(7, 0, (1, 1)))
    whole.commit(Index(2))

    async def taken():
        stepped = SteppedLogState(EmptyLog(), state, 256, STATE_BYTES_MAX)
        stepped.attach(Gate("test"), ReplicaCounts(CallFigures(), None))
        stepped._log.start = None
        stepped.commit(Index(2))
        assert stepped.applied_index == 1
        return await stepped.take_snapshot()

    snapshot = asyncio.run(taken())
    assert (snapshot.applied_index, snapshot.state) == (2, b"".join(whole.snapshot()))


def test_a_plain_commit_is_the_same_work_however_many_producers_wait_at_its_places(work):
    def done(producers):
        state = _noted(*(txn_commit(number, *_places(20)) for number in range(producers)))
        state.commit(Index(producers))
        new, done = commit_of(*_places(20)), []
        for index in (producers + 1, producers + 2):
            done.append(work.of(state.admit, new))
            done.append(work.of(state.note, placed(new, index)))
            done.append(work.of(state.commit, Index(index)))
        return done

    assert done(100) == done(1)


def test_a_deletion_is_settled_in_steps_however_many_producers_wait_at_its_places(work):
    batches = [txn_commit(number, *_places(30)) for number in range(100)]
    deletion = commit_of(*((each, None) for each, _ in _places(30)))
    state = _noted(commit_of(*_places(30)), *batches, deletion)
    state.commit(Index(101))
    assert asyncio.run(work.settle(state, 102)) <= STEP_MAX * 3
    assert (state.table.record_count, len(state.table.pending)) == (0, 0)
    assert state.fills()[1].used == 0


def test_an_undone_marker_leaves_the_same_bytes_as_one_that_comes_once():
    marker = placed(marker_of(7, 0, (1, 1)), 2)
    once, again = (_noted(txn_commit(7, *_places(3))) for _ in range(2))
    for state in (once, again):
        state.note(marker)
    again.truncate(Index(2))
    again.note(marker)
    for state in (once, again):
        state.commit(Index(2))
    assert b"".join(again.snapshot()) == b"".join(once.snapshot())
