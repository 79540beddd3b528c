"""Transactions in the producer state: guards, markers, open transactions, and the two formats of its snapshots."""

import pytest
from producer_batches import header, marker, new_batch, placed, transactional

from cluster.producer_errors import (
    InvalidProducerEpochError,
    MarkerRefusedError,
    NotAdmittedError,
    OutOfOrderSequenceError,
    TransactionStateError,
)
from cluster.producer_state import ProducerState
from cluster.producer_table import (
    FORMAT_VERSION,
    FORMAT_WITHOUT_TRANSACTIONS,
    PlacedMark,
    ProducerOptions,
    ProducerTable,
)
from model.control_batch import NO_PREPARE, Prepare
from model.ids import NO_INDEX, Index
from model.record_batch import CONTROL_MASK, TRANSACTIONAL_MASK
from raft.replicate_item import NewEntry, ReplicateResult
from storage.entry import EntryKind
from storage.errors import CorruptLogError

DAY = 24 * 3600 * 1000
PRODUCER = 7


class Log:
    """A log with its state. Every entry is one record, but for batches of more."""

    def __init__(self, **options):
        self.now_ms = 0
        self.options = ProducerOptions(**options)
        self.state = ProducerState(lambda: self.now_ms, self.options)
        self.entries = []

    @property
    def end(self):
        return self.entries[-1].end_offset if self.entries else 0

    def append(self, *batches):
        for batch in batches:
            verdict = self.state.admit(batch)
            assert verdict is None, verdict
            self.force(batch)

    def force(self, batch):
        entry = placed(batch, len(self.entries) + 1, self.end)
        self.entries.append(entry)
        self.state.note(entry)

    def open(self, producer=PRODUCER, first=0, epoch=0):
        """Open a transaction, as a leader does whose coordinator has said yes; return its first offset."""
        end = self.end
        self.append(transactional(producer, first, epoch=epoch, guard=self.state.fences.guard(producer)))
        return end

    def commit(self, index=None):
        self.state.commit(Index(len(self.entries) if index is None else index))

    def truncate(self, first_removed):
        del self.entries[first_removed - 1 :]
        self.state.truncate(Index(first_removed))

    def saved(self):
        return b"".join(self.state.snapshot())


def all_known(state):
    return [state.known(producer_id) for producer_id in state.known_ids()]


def reopened(log, applied_index):
    """Return a state that begins with the snapshot of this one, and replays the log behind it."""
    state = ProducerState(lambda: log.now_ms, log.options)
    list(state.restore(log.saved(), Index(applied_index)))
    for entry in log.entries:
        state.note(entry)
    return state


def refusal(log, batch):
    verdict = log.state.admit(batch)
    assert isinstance(verdict, Exception), verdict
    return type(verdict)


@pytest.fixture
def log():
    return Log()


# -- what opens ---------------------------------------------------------------------------------------------------


def test_a_batch_without_a_guard_opens_no_transaction(log):
    assert log.state.opens_transaction(transactional(PRODUCER, 0).payload)
    assert refusal(log, transactional(PRODUCER, 0)) is NotAdmittedError


def test_a_guard_that_was_taken_before_a_fence_opens_no_transaction(log):
    guard = log.state.fences.guard(PRODUCER)
    log.state.fences.fence(PRODUCER, now=0.0)
    assert refusal(log, transactional(PRODUCER, 0, guard=guard)) is NotAdmittedError
    log.open()


def test_a_guard_from_before_a_fence_does_not_join_the_next_transaction(log):
    guard = log.state.fences.guard(PRODUCER)
    log.state.fences.fence(PRODUCER, now=0.0)
    log.open()
    assert refusal(log, transactional(PRODUCER, 1, guard=guard)) is NotAdmittedError
    log.append(transactional(PRODUCER, 1, guard=log.state.fences.guard(PRODUCER)))


def test_a_batch_of_an_open_transaction_asks_nobody(log):
    log.open()
    log.state.fences.fence(PRODUCER, now=0.0)
    assert not log.state.opens_transaction(transactional(PRODUCER, 1).payload)
    log.append(transactional(PRODUCER, 1), transactional(PRODUCER, 2, 5))


def test_a_duplicate_of_a_transaction_that_has_ended_asks_nobody_and_has_its_place(log):
    first = log.open()
    log.append(marker(PRODUCER, first))
    assert not log.state.opens_transaction(transactional(PRODUCER, 0).payload)
    assert log.state.admit(transactional(PRODUCER, 0)).base_offset == first
    assert log.state.opens_transaction(transactional(PRODUCER, 1).payload)


def test_a_plain_batch_opens_nothing_and_is_refused_inside_a_transaction(log):
    assert not log.state.opens_transaction(new_batch(PRODUCER, 0).payload)
    assert not log.state.opens_transaction(new_batch(-1, -1).payload)
    first = log.open()
    assert refusal(log, new_batch(PRODUCER, 1)) is TransactionStateError
    log.append(new_batch(-1, -1), new_batch(8, 0), marker(PRODUCER, first), new_batch(PRODUCER, 1))


def test_a_batch_of_the_next_epoch_waits_for_the_marker_of_the_former_transaction(log):
    first = log.open()
    guard = log.state.fences.guard(PRODUCER)
    assert log.state.opens_transaction(transactional(PRODUCER, 0, epoch=1).payload)
    assert refusal(log, transactional(PRODUCER, 0, epoch=1, guard=guard)) is NotAdmittedError
    log.append(marker(PRODUCER, first, epoch=1))
    assert log.open(epoch=1) == 2


def test_one_transaction_more_than_there_may_be_is_refused():
    log = Log(producers_max=4)
    first = log.open(1)
    log.open(2)
    guard = log.state.fences.guard(3)
    assert refusal(log, transactional(3, 0, guard=guard)) is TransactionStateError
    log.append(marker(1, first), transactional(3, 0, guard=guard))


# -- what ends ----------------------------------------------------------------------------------------------------


def test_a_marker_ends_exactly_the_transaction_that_begins_at_its_offset(log):
    assert refusal(log, marker(PRODUCER, 0)) is MarkerRefusedError
    first = log.open()
    assert refusal(log, marker(PRODUCER, first + 1)) is MarkerRefusedError
    log.append(marker(PRODUCER, first))
    assert refusal(log, marker(PRODUCER, first)) is MarkerRefusedError
    second = log.open(first=1)
    assert second != first
    assert refusal(log, marker(PRODUCER, first)) is MarkerRefusedError


def test_a_marker_of_an_older_epoch_is_refused(log):
    log.append(new_batch(PRODUCER, 0, epoch=2))
    assert refusal(log, marker(PRODUCER, 0, epoch=1)) is InvalidProducerEpochError


def test_an_administrators_marker_ends_a_transaction_of_its_own_epoch_only(log):
    first = log.open()
    assert refusal(log, marker(PRODUCER, first, epoch=1, prepare=NO_PREPARE)) is MarkerRefusedError
    log.append(marker(PRODUCER, first, prepare=NO_PREPARE))
    assert log.state.last_prepare(PRODUCER) == (NO_PREPARE, NO_INDEX)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_marker_of_a_later_epoch_fences_the_former_one_and_begins_at_sequence_0(log, is_committed):
    first = log.open()
    log.append(transactional(PRODUCER, 1, 4), marker(PRODUCER, first, epoch=1))
    if is_committed:
        log.commit()
    assert refusal(log, transactional(PRODUCER, 5)) is InvalidProducerEpochError
    assert refusal(log, new_batch(PRODUCER, 5)) is InvalidProducerEpochError
    assert refusal(log, new_batch(PRODUCER, 5, epoch=1)) is OutOfOrderSequenceError
    log.open(epoch=1)


@pytest.mark.parametrize("is_committed", [True, False])
def test_sequence_numbers_go_on_behind_a_marker_of_the_same_epoch(log, is_committed):
    first = log.open()
    log.append(marker(PRODUCER, first))
    if is_committed:
        log.commit()
    guard = log.state.fences.guard(PRODUCER)
    assert refusal(log, transactional(PRODUCER, 2, guard=guard)) is OutOfOrderSequenceError
    log.open(first=1)


def test_the_newest_decision_is_known_with_its_entry_until_it_is_committed(log):
    first = log.open()
    log.append(marker(PRODUCER, first, prepare=(2, 9)))
    assert log.state.last_prepare(PRODUCER) == (Prepare(2, 9), 2)
    log.commit()
    assert log.state.last_prepare(PRODUCER) == (Prepare(2, 9), NO_INDEX)
    first = log.open(first=1)
    log.append(marker(PRODUCER, first, prepare=(3, 1)))
    assert log.state.last_prepare(PRODUCER) == (Prepare(3, 1), 4)
    log.truncate(4)
    assert log.state.last_prepare(PRODUCER) == (Prepare(2, 9), NO_INDEX)


@pytest.mark.parametrize("prepare", [(2, 9), NO_PREPARE], ids=["a coordinator's", "an administrator's"])
def test_the_newest_marker_is_known_with_its_entry_until_it_is_committed(log, prepare):
    first = log.open()
    assert log.state.last_marker(PRODUCER) == NO_INDEX
    log.append(marker(PRODUCER, first, prepare=prepare))
    assert log.state.last_marker(PRODUCER) == 2
    log.truncate(2)
    assert log.state.last_marker(PRODUCER) == NO_INDEX
    log.append(marker(PRODUCER, first, prepare=prepare))
    log.open(first=1)
    assert log.state.last_marker(PRODUCER) == 2
    log.commit()
    assert log.state.last_marker(PRODUCER) == NO_INDEX


def test_a_truncated_marker_leaves_its_transaction_open_and_its_epoch_unknown(log):
    first = log.open()
    log.commit()
    log.append(marker(PRODUCER, first, epoch=1))
    log.truncate(2)
    assert log.state.transactions.open_of(PRODUCER).first_offset == first
    log.append(transactional(PRODUCER, 1), marker(PRODUCER, first, epoch=1))


def test_a_marker_that_cannot_be_read_is_corruption(log):
    broken = NewEntry(EntryKind.DATA, header(PRODUCER, 0, -1, 1, TRANSACTIONAL_MASK | CONTROL_MASK), 1)
    with pytest.raises(CorruptLogError):
        log.state.note(placed(broken, 1, 0))


# -- what is known and forgotten ----------------------------------------------------------------------------------


def test_what_is_known_of_a_producer_names_its_transaction_and_its_coordinator(log):
    log.append(new_batch(8, 0, 2))
    first = log.open()
    told = [
        (each.producer_id, each.last_sequence, each.coordinator_epoch, each.first_offset)
        for each in all_known(log.state)
    ]
    assert told == [(PRODUCER, 0, -1, first), (8, 1, -1, None)]
    log.append(marker(PRODUCER, first, epoch=1))
    for _ in range(2):
        known = log.state.known(log.state.known_ids()[0])
        assert (known.epoch, known.last_sequence, known.coordinator_epoch, known.first_offset) == (1, -1, 3, None)
        log.commit()


def test_a_producer_with_an_open_transaction_is_never_forgotten():
    log = Log(producers_max=2)
    first = log.open(1)
    log.commit()
    log.now_ms += 2 * DAY
    log.append(*[new_batch(number, 0) for number in (2, 3, 4)])
    log.commit()
    assert log.state.known_ids() == [1, 4]
    log.append(transactional(1, 1), marker(1, first))
    log.commit()


def test_retries_of_other_producers_are_known_though_no_more_transactions_may_be_open():
    log = Log(producers_max=4)
    for number in (1, 2):
        log.open(number)
    retried = new_batch(3, 0)
    log.append(retried, new_batch(4, 0))
    log.commit()
    assert sorted(log.state.known_ids()) == [1, 2, 3, 4]
    assert isinstance(log.state.admit(retried), ReplicateResult)


def test_a_producer_that_stayed_for_its_transaction_is_forgotten_once_that_has_ended():
    log = Log(producers_max=2)
    first = log.open(1)
    log.commit()
    log.append(*[new_batch(number, 0) for number in (2, 3)])
    log.commit()
    assert log.state.known_ids() == [1, 3]
    log.append(marker(1, first))
    log.commit()
    log.append(new_batch(4, 0), new_batch(5, 0))
    log.commit()
    assert log.state.known_ids() == [4, 5]


def test_a_producer_that_stayed_for_a_transaction_that_was_cut_off_is_forgotten_later():
    log = Log(producers_max=1)
    log.append(new_batch(1, 0))
    log.commit()
    log.append(new_batch(2, 0))
    log.open(1, first=1)
    log.commit(2)
    assert log.state.known_ids() == [1]
    log.truncate(3)
    log.append(new_batch(3, 0))
    log.commit()
    assert log.state.known_ids() == [3]


def test_producers_with_an_open_transaction_are_passed_over_once_however_many_others_are_forgotten():
    table, asked, count = ProducerTable(ProducerOptions(producers_max=50)), [], 200

    def is_open(producer_id):
        asked.append(producer_id)
        return producer_id < 50

    for producer_id in range(50 + count):
        table.settle(PlacedMark(producer_id, 0, producer_id + 1, 1, 0), 0)
        table.expire(0, is_open)
    assert list(table) == list(range(50))
    assert sorted(asked) == list(range(50 + count))
    assert table.evicted == count


def test_of_many_silent_producers_a_hundred_are_forgotten_with_each_commit():
    log = Log(expiration_ms=1000)
    log.append(*[new_batch(number, 0) for number in range(250)])
    log.commit()
    log.now_ms += 1000
    left = []
    for number in range(3):
        log.append(new_batch(1000 + number, 0))
        log.commit()
        left.append(log.state.producer_count)
    assert left == [151, 52, 3]


def test_a_producer_whose_transaction_has_ended_is_known_for_an_hour_however_short_the_expiration_is():
    log = Log(expiration_ms=1000)
    first = log.open(1)
    log.append(marker(1, first, epoch=1))
    log.append(new_batch(2, 0))
    log.commit()
    log.now_ms += 3600 * 1000 - 1
    log.append(new_batch(3, 0))
    log.commit()
    assert log.state.known_ids() == [1, 2, 3]
    log.now_ms += 1
    log.append(new_batch(4, 0))
    log.commit()
    assert log.state.known_ids() == [3, 4]


def test_a_producer_whose_marker_is_not_committed_is_not_forgotten():
    log = Log(producers_max=1)
    first = log.open(1)
    log.commit()
    log.append(new_batch(2, 0), marker(1, first, epoch=1))
    log.commit(2)
    log.truncate(3)
    assert log.state.known_ids() == [1]
    log.append(transactional(1, 1))


def test_a_state_ahead_of_the_log_keeps_what_it_says_when_the_log_is_cut(log):
    first = log.open()
    log.commit()
    state = ProducerState(lambda: 0)
    list(state.restore(log.saved(), Index(1)))
    state.truncate(Index(1))
    assert state.restored_index == 1
    assert state.transactions.open_of(PRODUCER).first_offset == first


# -- snapshots ----------------------------------------------------------------------------------------------------


def test_a_state_with_a_transaction_that_begins_above_its_index_is_corruption(log):
    log.append(new_batch(8, 0))
    log.open()
    log.commit()
    with pytest.raises(CorruptLogError, match="begins later"):
        list(ProducerState(lambda: 0).restore(log.saved(), Index(1)))


def test_a_snapshot_is_in_format_1_as_long_as_nothing_transactional_is_there(log):
    log.append(new_batch(8, 0), new_batch(-1, -1))
    log.commit()
    assert log.saved()[0] == FORMAT_WITHOUT_TRANSACTIONS
    log.open()
    # What is not committed is in no snapshot.
    assert log.saved()[0] == FORMAT_WITHOUT_TRANSACTIONS
    log.commit()
    assert log.saved()[0] == FORMAT_VERSION


def test_a_snapshot_is_in_format_1_again_once_the_transactional_producers_are_forgotten(log):
    first = log.open()
    log.append(marker(PRODUCER, first))
    log.commit()
    assert log.saved()[0] == FORMAT_VERSION
    log.now_ms += DAY
    log.append(new_batch(8, 0))
    log.commit()
    assert log.saved()[0] == FORMAT_WITHOUT_TRANSACTIONS


def test_a_snapshot_holds_what_is_open_as_of_its_entry(log):
    first = log.open(1)
    other = log.open(2)
    log.commit()
    log.append(marker(1, first, epoch=1, prepare=(4, 5)))
    state = reopened(log, 2)
    assert state.transactions.open_of(1) is None
    assert state.transactions.open_of(2).first_offset == other
    state.truncate(Index(3))
    assert state.transactions.open_of(1).first_offset == first
    log.commit()
    again = reopened(log, 3)
    assert again.restored_index == 3
    assert [each.producer_id for each in again.transactions.open_at(Index(3))] == [2]
    assert again.last_prepare(1) == (Prepare(4, 5), NO_INDEX)
    assert all_known(again) == all_known(log.state)
    assert b"".join(again.snapshot()) == log.saved()


@pytest.mark.parametrize(
    "transactions",
    ["\x92\x95\x01\x00\x05\x05\x00\x95\x02\x00\x04\x04\x00", "\x92\x95\x01\x00\x04\x04\x00\x95\x01\x00\x05\x05\x00"],
    ids=["against the order of the log", "two of one producer"],
)
def test_open_transactions_that_no_log_has_are_corruption(transactions):
    state = b"\x02\x93\xff\x90" + transactions.encode("latin-1")
    with pytest.raises(CorruptLogError):
        list(ProducerTable(ProducerOptions()).decode(state, 0))
