"""Transactions in the producer state against the naive one, which replays the whole log for every question."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from producer_batches import marker, new_batch, placed, transactional

from cluster.producer_errors import (
    InvalidProducerEpochError,
    MarkerRefusedError,
    NotAdmittedError,
    OutOfOrderSequenceError,
    TransactionStateError,
)
from cluster.producer_state import ProducerState
from model.control_batch import NO_PREPARE, Prepare
from model.ids import NO_INDEX, Index

PRODUCERS = st.integers(1, 3)
EPOCHS = st.integers(0, 2)


class Replay:
    """What a log says of one producer: epoch, next sequence number, what is open, and the newest decision."""

    def __init__(self, log, producer, upto=None):
        self.epoch, self.next, self.opened, self.prepare, self.placed = None, 0, None, NO_PREPARE, NO_INDEX
        for index, (kind, owner, epoch, offset, prepare) in enumerate(log[:upto], start=1):
            if owner != producer:
                continue
            if epoch != self.epoch:
                self.next = 0
            self.epoch = epoch
            if kind == "marker":
                self.opened = None
                if prepare != NO_PREPARE:
                    self.prepare, self.placed = prepare, index
                continue
            self.next += 1
            if kind == "transactional" and self.opened is None:
                self.opened = (index, offset, epoch)


class TransactionsMachine(RuleBasedStateMachine):
    """A replica's log: it appends, truncates, commits, and starts again from a snapshot of any age.

    `log` are (kind, producer, epoch, offset, prepare); each entry is one record, so the offset is index - 1.
    """

    def __init__(self):
        super().__init__()
        self.state = ProducerState(lambda: 0)
        self.log, self.entries = [], []
        self.committed = self.visible = 0
        self.state.visible = lambda: Index(self.visible)
        self.saved = (b"", 0)
        self.decisions = 0
        self.guards = {}

    def _append(self, kind, batch, producer, epoch, prepare=NO_PREPARE):
        offset = len(self.log)
        entry = placed(batch, offset + 1, offset)
        self.log.append((kind, producer, epoch, offset, Prepare(*prepare)))
        self.entries.append(entry)
        self.state.note(entry)

    def _judge(self, batch, expected):
        verdict = self.state.admit(batch)
        assert (None if verdict is None else type(verdict)) is expected
        return verdict is None

    @rule(producer=PRODUCERS)
    def take_guard(self, producer):
        self.guards[producer] = self.state.fences.guard(producer)

    @rule(producer=PRODUCERS)
    def fence(self, producer):
        self.state.fences.fence(producer, now=0.0)
        self.guards.pop(producer, None)

    @rule(producer=PRODUCERS, epoch=EPOCHS, is_transactional=st.booleans(), is_next=st.booleans())
    def offer(self, producer, epoch, is_transactional, is_next):
        """A leader judges the next batch of a producer, or one behind it."""
        was = Replay(self.log, producer)
        next_ = was.next if epoch == was.epoch else 0
        sequence = next_ if is_next else next_ + 2
        guard = self.guards.get(producer)
        if was.epoch is not None and epoch < was.epoch:
            expected = InvalidProducerEpochError
        elif not is_next:
            expected = OutOfOrderSequenceError
        elif not is_transactional:
            expected = TransactionStateError if was.opened else None
        elif was.opened:
            expected = None if was.opened[2] == epoch else NotAdmittedError
        else:
            expected = None if guard is not None else NotAdmittedError
        if is_transactional:
            batch = transactional(producer, sequence, epoch=epoch, guard=guard)
            joins = was.opened and was.opened[2] == epoch
            asks = is_next and expected is not InvalidProducerEpochError and not joins
            assert self.state.opens_transaction(batch.payload) == asks
        else:
            batch = new_batch(producer, sequence, epoch=epoch)
        if self._judge(batch, expected):
            self._append("transactional" if is_transactional else "plain", batch, producer, epoch)

    @rule(producer=PRODUCERS, epoch=EPOCHS, is_right=st.booleans(), is_admins=st.booleans())
    def end(self, producer, epoch, is_right, is_admins):
        """A leader judges a marker: built for what is open, or for what was."""
        was = Replay(self.log, producer)
        first = was.opened[1] if was.opened and is_right else 10_000
        self.decisions += 1
        prepare = NO_PREPARE if is_admins else Prepare(1, self.decisions)
        if was.epoch is not None and epoch < was.epoch:
            expected = InvalidProducerEpochError
        elif not was.opened or not is_right or (is_admins and was.opened[2] != epoch):
            expected = MarkerRefusedError
        else:
            expected = None
        batch = marker(producer, first, epoch, prepare)
        if self._judge(batch, expected):
            self._append("marker", batch, producer, epoch, prepare)

    @rule(producer=PRODUCERS, epoch=EPOCHS, kind=st.sampled_from(["plain", "transactional", "marker"]))
    def follow(self, producer, epoch, kind):
        """A follower takes whatever a leader has admitted; markers that end nothing are harmless."""
        was = Replay(self.log, producer)
        next_ = was.next if epoch == was.epoch else 0
        self.decisions += 1
        prepare = Prepare(1, self.decisions) if kind == "marker" else NO_PREPARE
        batch = {
            "plain": lambda: new_batch(producer, next_, epoch=epoch),
            "transactional": lambda: transactional(producer, next_, epoch=epoch),
            "marker": lambda: marker(producer, 0, epoch, prepare),
        }[kind]()
        self._append(kind, batch, producer, epoch, prepare)

    @precondition(lambda self: len(self.log) > self.committed)
    @rule(data=st.data())
    def truncate(self, data):
        first_removed = data.draw(st.integers(self.committed + 1, len(self.log)))
        del self.log[first_removed - 1 :], self.entries[first_removed - 1 :]
        self.visible = min(self.visible, first_removed - 1)
        self.state.truncate(Index(first_removed))

    @rule(data=st.data())
    def commit(self, data):
        self.committed = data.draw(st.integers(self.committed, len(self.log)))
        self.visible = data.draw(st.integers(max(self.visible, self.committed), len(self.log)))
        self.state.commit(Index(self.committed))

    @rule()
    def save(self):
        self.saved = (b"".join(self.state.snapshot()), self.committed)

    @rule()
    def restart(self):
        """Commit and visible are not durable: they begin at the snapshot and are learnt again."""
        before = b"".join(self.state.snapshot())
        self.state = ProducerState(lambda: 0)
        self.state.visible = lambda: Index(self.visible)
        list(self.state.restore(*self.saved))
        for entry in self.entries:
            self.state.note(entry)
        self.state.commit(Index(self.committed))
        self.guards.clear()
        assert b"".join(self.state.snapshot()) == before

    @invariant()
    def a_snapshot_is_in_format_1_until_something_transactional_is_settled(self):
        version = next(self.state.snapshot())[0]
        is_needed = any(kind == "marker" for kind, *_ in self.log[: self.committed]) or any(
            Replay(self.log, producer, self.committed).opened for producer in (1, 2, 3)
        )
        assert version == (2 if is_needed else 1)

    @invariant()
    def what_is_open_is_what_the_replay_says(self):
        for producer in (1, 2, 3):
            was = Replay(self.log, producer)
            transaction = self.state.transactions.open_of(producer)
            found = transaction and (transaction.first_index, transaction.first_offset, transaction.epoch)
            assert found == was.opened
            prepare, placed_at = self.state.last_prepare(producer)
            assert prepare == was.prepare
            assert placed_at == (was.placed if was.placed > self.committed else NO_INDEX)

    @invariant()
    def readers_stop_at_the_first_that_is_open_as_they_see_it(self):
        opened = [Replay(self.log, producer, self.visible).opened for producer in (1, 2, 3)]
        first = min((each[0] for each in opened if each), default=None)
        found = self.state.transactions.first_open_at(Index(self.visible))
        assert (None if found is None else found.first_index) == first


TransactionsMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestTransactions = TransactionsMachine.TestCase
