"""The producer state: what is appended, what is a duplicate of what, what is refused, and what is forgotten when."""

import msgspec
import pytest
from producer_batches import TIMESTAMP, new_batch, placed

from cluster.producer_errors import DuplicateSequenceError, InvalidProducerEpochError, OutOfOrderSequenceError
from cluster.producer_state import ProducerState
from cluster.producer_table import BATCHES_KEPT, FORMAT_VERSION, FORMAT_WITHOUT_TRANSACTIONS, ProducerOptions
from model.ids import Index
from raft.replicate_item import NewEntry, ReplicateResult
from storage.entry import EntryKind
from storage.errors import CorruptLogError

DAY = 24 * 3600 * 1000
LARGEST = 2**31 - 1


def saved_state(state):
    return b"".join(state.snapshot())


def restore(state, saved, applied_index):
    for _ in state.restore(saved, applied_index):
        pass


class Log:
    """A log of batches with its state; time passes by hand."""

    def __init__(self, **options):
        self.now_ms = 1_000_000
        self.options = ProducerOptions(**options)
        self.state = ProducerState(lambda: self.now_ms, self.options)
        self.entries = []

    def append(self, *batches):
        """Append batches that are admitted; return the entries."""
        appended = []
        for batch in batches:
            assert self.state.admit(batch) is None
            appended.append(self.force(batch))
        return appended

    def force(self, batch):
        """Append a batch as a follower does: nobody asks whether it may be there."""
        end = self.entries[-1].end_offset if self.entries else 0
        entry = placed(batch, len(self.entries) + 1, end)
        self.entries.append(entry)
        self.state.note(entry)
        return entry

    def truncate(self, first_removed):
        del self.entries[first_removed - 1 :]
        self.state.truncate(Index(first_removed))

    def commit(self, index=None):
        self.state.commit(Index(len(self.entries) if index is None else index))

    def reopened(self):
        """Return a log that begins with the snapshot of this one."""
        again = Log()
        again.now_ms, again.options = self.now_ms, self.options
        again.state = ProducerState(lambda: again.now_ms, self.options)
        restore(again.state, saved_state(self.state), Index(len(self.entries)))
        again.entries = list(self.entries)
        return again


def place_of(entry):
    return ReplicateResult(entry.index, entry.index, entry.base_offset, entry.term, TIMESTAMP)


def refusal(log, batch):
    verdict = log.state.admit(batch)
    assert isinstance(verdict, Exception), verdict
    return type(verdict)


@pytest.fixture
def log():
    return Log()


# -- what is appended ---------------------------------------------------------------------------------------------


def test_batches_without_a_producer_and_entries_of_other_kinds_are_nobodys_business(log):
    log.append(*[new_batch(-1, -1) for _ in range(3)], NewEntry(EntryKind.BARRIER, b"", 0))
    log.append(NewEntry(EntryKind.DATA, bytearray(30), 0))
    log.commit()
    assert log.state.producer_count == 0


def test_batches_in_sequence_are_appended_whether_the_former_are_committed_or_not(log):
    log.append(new_batch(7, 0, 3), new_batch(7, 3, 2))
    log.commit(1)
    log.append(new_batch(7, 5))
    log.commit()
    log.append(new_batch(7, 6))


def test_producers_do_not_know_of_each_other(log):
    log.append(new_batch(7, 0, 3), new_batch(8, 0, 1), new_batch(7, 3), new_batch(8, 1))


@pytest.mark.parametrize("last", [LARGEST, LARGEST - 1, 1])
def test_sequence_numbers_begin_again_after_the_largest_one(log, last):
    log.force(new_batch(7, LARGEST - 9, 10 - (LARGEST - last) if last > 1 else 12))
    log.append(new_batch(7, (last + 1) % 2**31, 3))
    log.commit()
    assert log.state.admit(new_batch(7, (last + 4) % 2**31)) is None
    assert log.state.admit(new_batch(7, (last + 1) % 2**31, 3)) == place_of(log.entries[1])


def test_a_newer_epoch_begins_with_0(log):
    log.append(new_batch(7, 0, 3))
    assert refusal(log, new_batch(7, 3, epoch=1)) is OutOfOrderSequenceError
    log.append(new_batch(7, 0, 3, epoch=1), new_batch(7, 3, epoch=1))
    log.commit()
    log.append(new_batch(7, 0, epoch=5))


# -- duplicates ---------------------------------------------------------------------------------------------------


def test_a_duplicate_has_the_place_of_its_original_committed_or_not(log):
    first, second = log.append(new_batch(7, 0, 3), new_batch(7, 3, 2))
    log.commit(1)
    assert log.state.admit(new_batch(7, 0, 3)) == place_of(first)
    assert log.state.admit(new_batch(7, 3, 2)) == place_of(second)


def test_the_last_five_committed_batches_and_all_uncommitted_ones_are_known(log):
    entries = log.append(*[new_batch(7, number) for number in range(20)])
    log.commit(12)
    known = entries[12 - BATCHES_KEPT :]
    assert [log.state.admit(new_batch(7, number)) for number in range(7, 20)] == [place_of(entry) for entry in known]


def test_what_was_committed_before_the_last_five_is_told_apart_from_what_never_was(log):
    log.append(*[new_batch(7, number * 2, 2) for number in range(10)])
    log.commit()
    assert refusal(log, new_batch(7, 0, 2)) is DuplicateSequenceError
    assert refusal(log, new_batch(7, 8, 2)) is DuplicateSequenceError
    # Not one of the five, but not before them either: Kafka does not know what that is.
    assert refusal(log, new_batch(7, 9, 2)) is OutOfOrderSequenceError
    assert refusal(log, new_batch(7, 11, 2)) is OutOfOrderSequenceError
    assert refusal(log, new_batch(7, LARGEST - 1, 2)) is OutOfOrderSequenceError


def test_an_old_duplicate_is_never_assumed_from_before_what_is_known(log):
    # A producer that was forgotten goes on at 100: whether 50 was ever written, nobody knows.
    log.force(new_batch(7, 100, 10))
    for number in range(110, 120):
        log.append(new_batch(7, number))
    log.commit()
    assert refusal(log, new_batch(7, 50)) is OutOfOrderSequenceError
    assert refusal(log, new_batch(7, 95, 10)) is OutOfOrderSequenceError
    assert refusal(log, new_batch(7, 100, 10)) is DuplicateSequenceError


def test_a_truncated_original_is_no_original(log):
    log.append(new_batch(7, 0), new_batch(7, 1))
    log.truncate(2)
    assert log.state.admit(new_batch(7, 1)) is None
    log.truncate(1)
    assert log.state.admit(new_batch(7, 0)) is None


def test_a_truncation_brings_the_former_epoch_back(log):
    log.append(new_batch(7, 0), new_batch(7, 0, epoch=1))
    log.commit(1)
    log.truncate(2)
    log.append(new_batch(7, 1))


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [True, False])
def test_a_gap_is_out_of_order(log, committed):
    log.append(new_batch(7, 0, 3))
    if committed:
        log.commit()
    assert refusal(log, new_batch(7, 4)) is OutOfOrderSequenceError
    assert refusal(log, new_batch(7, 2)) is OutOfOrderSequenceError


def test_an_older_epoch_is_refused_even_for_a_duplicate(log):
    log.append(new_batch(7, 0), new_batch(7, 0, epoch=2))
    assert refusal(log, new_batch(7, 1, epoch=1)) is InvalidProducerEpochError
    assert refusal(log, new_batch(7, 0)) is InvalidProducerEpochError


def test_a_producer_that_was_never_here_begins_with_0(log):
    assert refusal(log, new_batch(7, 5)) is OutOfOrderSequenceError
    log.append(new_batch(7, 0))


def test_a_refused_batch_changes_nothing(log):
    log.append(new_batch(7, 0))
    before = saved_state(log.state)
    refusal(log, new_batch(7, 9, epoch=4))
    assert saved_state(log.state) == before
    log.append(new_batch(7, 1))


# -- what is forgotten --------------------------------------------------------------------------------------------


def test_a_producer_silent_for_the_expiration_is_forgotten_and_may_go_on_where_it_was(log):
    log.append(new_batch(7, 0, 10))
    log.commit()
    log.now_ms += DAY - 1
    log.append(new_batch(8, 0))
    log.commit()
    assert log.state.producer_count == 2
    log.now_ms += 1
    log.append(new_batch(8, 1))
    log.commit()
    assert log.state.producer_count == 1
    log.append(new_batch(7, 10))


def test_of_too_many_producers_the_one_silent_longest_is_forgotten():
    log = Log(producers_max=3)
    log.append(*[new_batch(number, 0) for number in (1, 2, 3)], new_batch(1, 1), new_batch(4, 0))
    log.commit()
    assert log.state.producer_count == 3
    assert log.state.admit(new_batch(2, 9)) is None
    assert refusal(log, new_batch(1, 9)) is OutOfOrderSequenceError
    assert refusal(log, new_batch(5, 9)) is OutOfOrderSequenceError


@pytest.mark.parametrize(("producers", "evicted"), [(90, 0), (100, 0), (101, 1)])
def test_a_table_at_its_bound_refuses_nobody_and_says_whom_it_forgot(caplog, producers, evicted):
    """At 90, 100 and 101 per cent of what it may hold."""
    log = Log(producers_max=100)
    log.append(*[new_batch(number, 0) for number in range(producers)])
    log.commit()
    fill = log.state.fill("orders-0")
    assert (fill.name, fill.used, fill.maximum) == ("the producers of orders-0", min(producers, 100), 100)
    assert log.state.evicted == evicted
    assert ("more than 100 idempotent producers" in caplog.text) == bool(evicted)
    # A retry of the newest one's batch is known, whoever was forgotten.
    assert log.state.admit(new_batch(producers - 1, 0)) == place_of(log.entries[-1])


def test_uncommitted_batches_of_a_forgotten_producer_are_known():
    log = Log(producers_max=1)
    log.append(new_batch(1, 0), new_batch(1, 1), new_batch(2, 0))
    log.commit(1)
    log.append(new_batch(1, 2))
    log.commit(3)
    assert log.state.admit(new_batch(1, 2)) == place_of(log.entries[3])
    log.commit()
    log.append(new_batch(1, 3))


def test_a_snapshot_remembers_who_may_have_been_forgotten():
    log = Log(producers_max=1)
    log.append(new_batch(1, 0), new_batch(2, 0))
    log.commit()
    again = log.reopened()
    assert again.state.admit(new_batch(1, 9)) is None
    assert refusal(again, new_batch(3, 9)) is OutOfOrderSequenceError


def test_a_clock_that_begins_anew_forgets_nobody(log):
    log.append(new_batch(7, 0))
    log.commit()
    log.now_ms -= 3 * DAY
    log.append(new_batch(8, 0))
    log.commit()
    assert log.state.producer_count == 2


# -- snapshots ----------------------------------------------------------------------------------------------------


def test_a_snapshot_holds_what_is_committed_and_nothing_else(log):
    log.append(*[new_batch(7, number) for number in range(8)])
    log.commit(6)
    saved = saved_state(log.state)
    again = ProducerState(lambda: log.now_ms)
    restore(again, saved, Index(6))
    assert again.admit(new_batch(7, 4)) == place_of(log.entries[4])
    assert isinstance(again.admit(new_batch(7, 0)), DuplicateSequenceError)
    assert isinstance(again.admit(new_batch(7, 7)), OutOfOrderSequenceError)
    # At the start all entries of the log are noted once more.
    for entry in log.entries:
        again.note(entry)
    assert again.admit(new_batch(7, 7)) == place_of(log.entries[7])
    again.commit(Index(8))
    log.commit(8)
    assert saved_state(again) == saved_state(log.state)


def test_a_reset_forgets_everything(log):
    log.append(new_batch(7, 0), new_batch(8, 0))
    log.commit(1)
    log.state.reset()
    log.entries.clear()
    assert log.state.producer_count == 0
    log.append(new_batch(7, 0), new_batch(8, 0))


def test_restoring_no_bytes_is_an_empty_table(log):
    log.append(new_batch(7, 0))
    restore(log.state, b"", Index(0))
    assert log.state.admit(new_batch(7, 0)) is None


@pytest.mark.parametrize(
    "state",
    [
        bytes([FORMAT_VERSION + 1]) + b"\x92\xff\x90",
        bytes([FORMAT_WITHOUT_TRANSACTIONS]),
        bytes([FORMAT_WITHOUT_TRANSACTIONS]) + b"\x92\xff\x91\x95",
        bytes([FORMAT_WITHOUT_TRANSACTIONS]) + b"\x92\xff\x91\x94\x01\x00\x00\x90",
    ],
    ids=["another format", "nothing", "cut off", "a producer without batches"],
)
def test_a_state_that_cannot_be_read_is_corruption_and_changes_nothing(log, state):
    log.append(new_batch(7, 0))
    with pytest.raises(CorruptLogError):
        restore(log.state, state, Index(1))
    assert log.state.admit(new_batch(7, 0)) == place_of(log.entries[0])


def test_the_snapshot_of_a_full_table_is_bounded():
    log = Log(producers_max=100)
    for number in range(300):
        for batch in range(BATCHES_KEPT + 1):
            log.force(new_batch(2**62 + number, 2**30 + batch, epoch=2**14))
    log.commit()
    assert log.state.producer_count == 100
    assert len(saved_state(log.state)) < 100 * (BATCHES_KEPT * 60 + 60)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 130])
def test_a_table_is_written_and_read_in_steps_and_as_one_value(count):
    log = Log()
    log.append(*[new_batch(number, 0) for number in range(count)])
    log.commit()
    parts = list(log.state.snapshot())
    assert len(parts) == 1 + -(-count // 50)
    forgotten, producers = msgspec.msgpack.decode(b"".join(parts)[1:])
    assert (forgotten, [producer[0] for producer in producers]) == (-1, list(range(count)))
    again = ProducerState(lambda: 0)
    steps = again.restore(b"".join(parts), Index(count))
    if count > 50:
        next(steps)
        assert again.producer_count == 0, "nothing is replaced before all is read"
    assert len(list(steps)) <= count // 50
    assert list(again.snapshot()) == parts


def test_a_producer_that_is_older_than_the_topic_goes_on_where_it_was_and_a_newer_one_begins_with_0():
    state = ProducerState(lambda: 0, older_producers=1000)
    assert state.admit(new_batch(999, 50)) is None
    assert isinstance(state.admit(new_batch(1000, 50)), OutOfOrderSequenceError)
    assert state.admit(new_batch(1000, 0)) is None
