"""The producer state against the naive one, which replays the whole log for every question."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from producer_batches import new_batch, placed

from cluster.producer_errors import DuplicateSequenceError, InvalidProducerEpochError, OutOfOrderSequenceError
from cluster.producer_state import ProducerState
from cluster.producer_table import BATCHES_KEPT
from model.ids import Index

# Few producers and small numbers, so that duplicates and gaps are common; -1 has no producer. The wrap is near.
PRODUCERS = st.sampled_from([-1, 1, 2])
EPOCHS = st.integers(0, 2)
COUNTS = st.integers(1, 3)
MODULUS = 2**31
FIRSTS = st.integers(-4, 12).map(lambda number: number % MODULUS)


def naive_verdict(batch, entries, committed):
    """Return None (append), a place, or a class of errors. `entries` are (producer, epoch, first, count, place)."""
    producer, epoch, first, count = batch
    if producer < 0:
        return None
    own = [entry for entry in entries if entry[0] == producer]
    if not own:
        return None if first == 0 else OutOfOrderSequenceError
    last = own[-1]
    if epoch != last[1]:
        if epoch < last[1]:
            return InvalidProducerEpochError
        return None if first == 0 else OutOfOrderSequenceError
    if first == (last[2] + last[3]) % MODULUS:
        return None
    final = [entry for entry in own if entry[4][0] <= committed]
    tail = own[len(final) :]
    for entry in reversed(run_of(final)[-BATCHES_KEPT:] + tail):
        if entry[1:4] == batch[1:]:
            return entry[4]
    old = {
        (entry[2] + number) % MODULUS
        for entry in run_of(final)[:-BATCHES_KEPT]
        for number in range(entry[3])
        if entry[1] == epoch
    }
    wanted = {(first + number) % MODULUS for number in range(count)}
    return DuplicateSequenceError if wanted <= old else OutOfOrderSequenceError


def run_of(entries):
    """Return the unbroken run of batches at the end."""
    run = []
    for entry in entries:
        if run and (entry[1] != run[-1][1] or entry[2] != (run[-1][2] + run[-1][3]) % MODULUS):
            run = []
        run.append(entry)
    return run


class ProducerStateMachine(RuleBasedStateMachine):
    """A replica's log: it appends, truncates, commits, and starts again from a snapshot of any age."""

    def __init__(self):
        super().__init__()
        self.state = ProducerState(lambda: 0)
        self.entries = []  # What `naive_verdict` reads.
        self.log = []  # The same as real entries.
        self.committed = 0
        self.saved = (b"", 0)

    def _append(self, batch):
        producer, epoch, first, count = batch
        entry = placed(new_batch(producer, first, count, epoch), len(self.log) + 1, self._end())
        self.log.append(entry)
        self.entries.append((*batch, (entry.index, entry.base_offset)))
        self.state.note(entry)

    def _end(self):
        return self.log[-1].end_offset if self.log else 0

    @rule(producer=PRODUCERS, epoch=EPOCHS, first=FIRSTS, count=COUNTS)
    def offer(self, producer, epoch, first, count):
        """A leader judges what a client sends, and appends what it admits."""
        batch = (producer, epoch, first, count)
        verdict = self.state.admit(new_batch(producer, first, count, epoch))
        expected = naive_verdict(batch, self.entries, self.committed)
        if expected is None:
            assert verdict is None
            self._append(batch)
        elif isinstance(expected, tuple):
            assert (verdict.first_index, verdict.base_offset) == expected
        else:
            assert type(verdict) is expected

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def go_on(self, data):
        """A client that keeps the order sends its next batch."""
        producer, epoch, first, count, _ = data.draw(st.sampled_from(self.entries))
        last = [entry for entry in self.entries if entry[0] == producer][-1]
        self.offer(producer, last[1], (last[2] + last[3]) % MODULUS, count)
        self.offer(producer, epoch, first, count)

    @rule(producer=PRODUCERS, epoch=EPOCHS, first=FIRSTS, count=COUNTS)
    def follow(self, producer, epoch, first, count):
        """A follower takes whatever a leader with another table has admitted."""
        self._append((producer, epoch, first, count))

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
        """The commit index is not durable: it begins at the snapshot and is learnt again."""
        before = b"".join(self.state.snapshot())
        self.state = ProducerState(lambda: 0)
        list(self.state.restore(*self.saved))
        for entry in self.log:
            self.state.note(entry)
        self.state.commit(Index(self.committed))
        assert b"".join(self.state.snapshot()) == before

    @invariant()
    def the_tail_is_what_is_not_committed(self):
        tail = [entry[4][0] for entry in self.entries if entry[0] >= 0 and entry[4][0] > self.committed]
        assert [batch.log_index for batch in self.state._tail] == tail
        assert sum(len(self.state._tail.of(producer)) for producer in self.state._tail.producers) == len(tail)


ProducerStateMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestProducerState = ProducerStateMachine.TestCase
