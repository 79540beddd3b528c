"""Open transactions are a function of the log: a model replays the log for each question."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster.transactions.fences import Fences
from cluster.transactions.open_transactions import OpenTransactions, Transaction
from model.control_batch import Prepare
from model.ids import Index, Offset

PRODUCERS = st.integers(0, 3)


def opened(producer, index):
    return Transaction(producer, 0, Index(index), Offset(10 * index), 0)


class AgainstReplay(RuleBasedStateMachine):
    """The log is a list of ("data" | "marker", producer); the answer of every question is worked out anew from it."""

    def __init__(self):
        super().__init__()
        self.log = []
        self.settled = 0
        self.transactions = OpenTransactions()

    def open_as_of(self, index):
        found = {}
        for at, (kind, producer) in enumerate(self.log[:index], start=1):
            if kind == "data":
                found.setdefault(producer, at)
            else:
                found.pop(producer, None)
        return sorted(found.values())

    @rule(producer=PRODUCERS)
    def write(self, producer):
        self.log.append(("data", producer))
        if self.transactions.open_of(producer) is None:
            self.transactions.begin(opened(producer, len(self.log)))

    @rule(producer=PRODUCERS)
    def mark(self, producer):
        self.log.append(("marker", producer))
        self.transactions.end(producer, Index(len(self.log)))

    @rule(data=st.data())
    def truncate(self, data):
        first_removed = data.draw(st.integers(self.settled + 1, len(self.log) + 1))
        del self.log[first_removed - 1 :]
        self.transactions.truncate(Index(first_removed))

    @rule(data=st.data())
    def settle(self, data):
        self.settled = data.draw(st.integers(self.settled, len(self.log)))
        self.transactions.settle(Index(self.settled))

    @precondition(lambda self: self.log)
    @rule()
    def restart(self):
        """From a snapshot as of what is settled; what lies behind is noted again."""
        state = [opened(each.producer_id, each.first_index) for each in self.transactions.open_at(Index(self.settled))]
        self.transactions = OpenTransactions()
        self.transactions.restore(state)
        for at, (kind, producer) in list(enumerate(self.log, start=1))[self.settled :]:
            if kind == "marker":
                self.transactions.end(producer, Index(at))
            elif self.transactions.open_of(producer) is None:
                self.transactions.begin(opened(producer, at))

    @invariant()
    def every_question_is_answered_as_the_log_says(self):
        whole = self.open_as_of(len(self.log))
        assert len(self.transactions) == len(whole)
        for visible in range(self.settled, len(self.log) + 1):
            expected = self.open_as_of(visible)
            first = self.transactions.first_open_at(Index(visible))
            assert (None if first is None else first.first_index) == (expected[0] if expected else None)
            assert [each.first_index for each in self.transactions.open_at(Index(visible))] == expected


TestAgainstReplay = AgainstReplay.TestCase
TestAgainstReplay.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_a_second_transaction_of_a_producer_cannot_hide_the_first():
    transactions = OpenTransactions()
    transactions.begin(opened(1, 5))
    with pytest.raises(AssertionError):
        transactions.begin(opened(1, 6))


def test_a_guard_holds_until_its_producer_is_fenced():
    fences = Fences()
    mine, other = fences.guard(1), fences.guard(2)
    fences.fence(1, now=5.0)
    assert fences.guard(1) != mine
    assert fences.guard(2) == other


@pytest.mark.parametrize(("known_max", "seconds"), [(2, 0.0), (100, 40.0), (100, 1000.0)])
def test_a_guard_of_a_fenced_producer_never_holds_though_its_fence_is_forgotten(known_max, seconds):
    fences = Fences(known_max)
    guards = {producer: fences.guard(producer) for producer in range(9)}
    for producer in range(8):
        fences.fence(producer, now=5.0 + producer * seconds)
    assert not any(fences.guard(producer) == guards[producer] for producer in range(8))
    # Nothing has fenced the ninth. Its guard is refused all the same: the coordinator is asked once more.
    assert fences.guard(8) != guards[8]
    guard = fences.guard(8)
    assert fences.guard(8) == guard


def test_a_guard_holds_through_the_fences_of_others_within_a_span():
    fences = Fences()
    fences.fence(1, now=5.0)
    guards = {producer: fences.guard(producer) for producer in (1, 2)}
    for number in range(1000):
        fences.fence(100 + number, now=5.0 + number * 0.05)
    assert {producer: fences.guard(producer) for producer in (1, 2)} == guards


def test_a_producer_that_is_fenced_no_more_costs_no_memory_for_long():
    fences = Fences()
    for number in range(10_000):
        fences.fence(number, now=float(number))
        fences.decide(number, float(number), 2, Prepare(1, 7))
    assert len(fences._counts) <= 120
    assert len(fences._decisions) <= 1200


def test_a_decision_is_remembered_for_its_term_beyond_the_fences():
    fences = Fences(known_max=3)
    for producer in range(9):
        fences.decide(producer, 5.0, 2, Prepare(1, 7))
    for producer in range(10, 20):
        fences.fence(producer, now=1e6)
    assert [fences.was_decided(producer, 2, Prepare(1, 7)) for producer in range(9)] == [False] * 3 + [True] * 6
    assert fences.was_decided(8, 2, Prepare(1, 6))
    assert not fences.was_decided(8, 2, Prepare(1, 8))
    assert not fences.was_decided(8, 3, Prepare(1, 7))
