"""Pending offsets against a fold over the log that compares indexes, whatever happens on the way."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from offset_entries import commit_of, committed, marker_of, place, placed, txn_commit

from cluster.groups.group_table import record_size
from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.records import OffsetKey
from cluster.state_bounds import StateFullError, StateOptions
from model.ids import Index

PRODUCERS = st.integers(1, 3)
PLACES = st.builds(place, st.integers(0, 1), st.sampled_from("gh"))
VALUES = st.builds(committed, st.integers(0, 9), st.sampled_from(["", "ü" * 20]))
BOUND = 600


class Fold:
    """What the first entries of a log say: offsets and pending ones, each with the index of its entry."""

    def __init__(self, log):
        self.offsets, self.pending, self.seen = {}, {}, False
        for index, step in enumerate(log, start=1):
            match step:
                case ("plain", records):
                    for where, value in records:
                        self.offsets.pop(where, None)
                        if value is not None:
                            self.offsets[where] = (value, index)
                            continue
                        for pending in self.pending.values():
                            pending.pop(where, None)
                case ("txn", producer, records):
                    self.seen = True
                    self.pending.setdefault(producer, {}).update({where: (value, index) for where, value in records})
                case ("marker", producer, is_commit):
                    self.seen = True
                    for where, (value, at) in self.pending.pop(producer, {}).items():
                        if is_commit and self.offsets.get(where, (None, 0))[1] < at:
                            self.offsets[where] = (value, at)

    @property
    def values(self):
        return {where: value for where, (value, _) in self.offsets.items()}

    @property
    def sizes(self):
        """Bytes and records of the table."""
        rows = [record_size(*each) for each in self.values.items()]
        rows += [17 + record_size(OffsetKey(*key[1:]), value) for key, (value, _) in self.waiting.items()]
        return [1 + sum(rows), len(rows)]

    @property
    def waiting(self):
        return {(producer, *where): each for producer, some in self.pending.items() for where, each in some.items()}


class PendingMachine(RuleBasedStateMachine):
    """A replica's log: it appends as leader or follower, truncates, commits, and begins again from an old snapshot."""

    def __init__(self):
        super().__init__()
        self.options = StateOptions(groups_bytes_max=BOUND)
        self.state = OffsetsLogState(options=self.options)
        self.log, self.entries, self.first_offsets = [], [], []
        self.committed, self.saved, self.decisions = 0, (b"", 0), 0

    def _offer(self, step, new):
        """A leader judges an entry, and appends it if there is room."""
        verdict = self.state.admit(new)
        if verdict is None:
            self.log.append(step)
            self.entries.append(placed(new, len(self.log)))
            self.state.note(self.entries[-1])
        else:
            assert isinstance(verdict, StateFullError)
            assert step[0] != "marker"

    @rule(records=st.lists(st.tuples(PLACES, st.none() | VALUES), min_size=1, max_size=3))
    def commit_outside(self, records):
        self._offer(("plain", records), commit_of(*records))

    @rule(producer=PRODUCERS, records=st.lists(st.tuples(PLACES, VALUES), min_size=1, max_size=3))
    def commit_inside(self, producer, records):
        guard = self.state.fences.guard(producer)
        self._offer(("txn", producer, records), txn_commit(producer, *records, guard=guard))

    @precondition(lambda self: self.state.transactions.is_open)
    @rule(producer=PRODUCERS, is_commit=st.booleans())
    def end(self, producer, is_commit):
        begun = self.state.transactions.open_of(producer)
        if begun is not None:
            self.decisions += 1
            new = marker_of(producer, begun.first_offset, (1, self.decisions), is_commit=is_commit)
            self._offer(("marker", producer, is_commit), new)

    @precondition(lambda self: len(self.log) > self.committed)
    @rule(data=st.data())
    def truncate(self, data):
        first_removed = data.draw(st.integers(self.committed + 1, len(self.log)))
        del self.log[first_removed - 1 :], self.entries[first_removed - 1 :]
        self.state.truncate(Index(first_removed))

    @rule(data=st.data())
    def commit(self, data):
        self.committed = data.draw(st.integers(self.committed, len(self.log)))
        self.state.commit(Index(self.committed))

    @rule()
    def save(self):
        self.saved = (b"".join(self.state.snapshot()), self.committed)

    @rule()
    def restart(self):
        before, fills = b"".join(self.state.snapshot()), [each.used for each in self.state.fills()]
        self.state = OffsetsLogState(options=self.options)
        list(self.state.restore(*self.saved))
        for entry in self.entries:
            self.state.note(entry)
        self.state.commit(Index(self.committed))
        assert b"".join(self.state.snapshot()) == before
        assert [each.used for each in self.state.fills()] == fills

    @invariant()
    def the_table_is_what_the_fold_of_committed_entries_gives(self):
        fold, table = Fold(self.log[: self.committed]), self.state.table
        found = {place(number, group): value for group in "gh" for (_, number), value in table.offsets(group).items()}
        assert found == fold.values
        waiting = {(key.producer_id, *key.place): (each, key.log_index) for key, each in table.pending}
        assert waiting == fold.waiting
        assert sum(len(table.pending.places(group)) for group in "gh") == len({key[1:] for key in fold.waiting})

    @invariant()
    def a_snapshot_is_within_its_bound_and_of_format_1_until_a_transaction_was_here(self):
        table, fold = self.state.table, Fold(self.log[: self.committed])
        state = b"".join(self.state.snapshot())
        assert state[0] == (2 if fold.seen else 1)
        rows = len(b"".join(table.encode(()))) - 8
        assert rows == table.size_bytes <= BOUND
        assert self.state.fills()[0].used <= BOUND

    @invariant()
    def what_is_counted_ahead_is_no_less_than_the_table_will_have(self):
        ahead, used = Fold(self.log).sizes, [fill.used for fill in self.state.fills()]
        assert all(whole <= counted for whole, counted in zip(ahead, used, strict=True))
        if self.committed == len(self.log):
            assert ahead == used

    @invariant()
    def a_group_waits_while_an_offset_is_pending_or_a_batch_with_one_is_not_committed(self):
        settled = {key[1] for key in Fold(self.log[: self.committed]).waiting}
        noted = {
            where.group for kind, *_, records in self.log[self.committed :] if kind == "txn" for where, _ in records
        }
        for group in "gh":
            assert self.state.is_pending(group) == (group in settled | noted)


PendingMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestPendingOffsets = PendingMachine.TestCase
