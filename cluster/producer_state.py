"""The producers of one partition: what makes a retry of a batch harmless (RFC 0007), and what is open (RFC 0021).

    tail   uncommitted batches of producers, in log order    note -> +    truncate -> -    commit -> settled
    table  what committed entries say of each producer       snapshot, restore

A lookup sees the tail first, then the table. So a batch that is written but not committed is known as well: its retry
shares its outcome instead of being answered from memory (counterexample 8), and when it is truncated, the retry is
appended anew. Batches without a producer cost one look at 8 bytes of their header.

The transactions that are open follow the log in the same way (`cluster.transactions.open_transactions`).

Source: KIP-98, KIP-360, KIP-890; Raft's rule that state is a function of the log.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cluster.producer_batch import (
    SEQUENCE_MASK,
    BatchSequence,
    is_marker,
    is_transactional,
    read_sequence,
    read_timestamp,
)
from cluster.producer_errors import (
    DuplicateSequenceError,
    InvalidProducerEpochError,
    MarkerRefusedError,
    NotAdmittedError,
    OutOfOrderSequenceError,
    ProducerRefusedError,
    TransactionStateError,
)
from cluster.producer_table import PlacedBatch, PlacedMark, Producer, ProducerOptions, ProducerTable
from cluster.producer_tail import NO_SEQUENCE, LastKnown, ProducerTail, last_known
from cluster.state_bounds import Fill
from cluster.transactions.fences import Fences
from cluster.transactions.open_transactions import OpenTransactions, Transaction
from model.control_batch import NO_PREPARE, Marker, Prepare, decode_marker
from model.ids import NO_INDEX, Index, Offset, Term
from model.record_batch import CONTROL_MASK, TRANSACTIONAL_MASK, unpack_attributes
from model.record_codec import CorruptRecordsError
from raft.replicate_item import NewEntry, ReplicateResult
from storage.entry import Buffer, Entry, EntryKind
from storage.errors import CorruptLogError

_CURE_MANY_PRODUCERS = (
    "let clients keep their producers: whoever has been silent longest is forgotten, and a retry of its last batches"
    " may be written twice"
)


class KnownProducer(NamedTuple):
    """What a partition knows of a producer, committed or not.

    `last_sequence` is -1 behind a marker with a new epoch; `timestamp` is of its newest entry, in milliseconds;
    `coordinator_epoch` of its newest marker, -1 without one; `first_offset` of its open transaction, None without one.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    timestamp: int
    coordinator_epoch: int
    first_offset: Offset | None


class ProducerState:
    """A `raft.log_state.LogState`.

    Args:
        now_ms: Milliseconds of a clock that nobody can set: it decides about expiry and nothing else. A wall clock that
            jumps a day ahead would forget everybody who waits for an answer, and append their retries again.
        options: Bounds of the table.
        older_producers: Producers with smaller ids may have written to another topic of this name before, and go on
            where they were. The same on all replicas.

    Attributes:
        transactions: What is open.
        fences: Guards of batches that ask the coordinator.
        restored_index: What the state was restored as of. Below it nothing is known of what was open.
        visible: Tells up to where readers see the log; transactions that ended below are forgotten.
    """

    def __init__(
        self, now_ms: Callable[[], int], options: ProducerOptions | None = None, older_producers: int = 0
    ) -> None:
        self._now_ms = now_ms
        self._options = options or ProducerOptions()
        self._older_producers = older_producers
        self._table = ProducerTable(self._options)
        self._tail = ProducerTail()
        self._settled_index = NO_INDEX
        self.transactions = OpenTransactions()
        self.fences = Fences()
        self.restored_index = NO_INDEX
        self.visible: Callable[[], Index] = lambda: self._settled_index

    @property
    def producer_count(self) -> int:
        """Producers in the settled table."""
        return len(self._table)

    @property
    def is_empty(self) -> bool:
        """Whether `snapshot` has nothing to say: as of the last `commit`, no producer is known and nothing is open."""
        return not len(self._table) and next(self.transactions.open_at(self._settled_index), None) is None

    def fill(self, name: str) -> Fill:
        """Return how full the settled table is; `name` is the partition's. A full one refuses nobody."""
        maximum = self._options.producers_max
        return Fill(f"the producers of {name}", "producers", len(self._table), maximum, 0, _CURE_MANY_PRODUCERS)

    @property
    def evicted(self) -> int:
        """How many producers this life of the replica has forgotten because there were too many."""
        return self._table.evicted

    def known_ids(self) -> list[int]:
        """Return every producer of which something is known, committed or not, in order."""
        return sorted({*self._table, *self._tail.producers})

    def known(self, producer_id: int) -> KnownProducer | None:
        """Return what is known of a producer, committed or not; None: nothing is."""
        last = self._last(producer_id)
        if last is None:
            return None
        producer, tail = self._table.get(producer_id), self._tail.of(producer_id)
        markers = [each for each in tail if isinstance(each, PlacedMark)]
        timestamp = tail[-1].timestamp if tail else _settled(producer).timestamp
        coordinator_epoch = (
            markers[-1].coordinator_epoch if markers else -1 if producer is None else producer.coordinator_epoch
        )
        transaction = self.transactions.open_of(producer_id)
        return KnownProducer(
            producer_id,
            last.epoch,
            NO_SEQUENCE if last.batch is None else last.batch.sequence.last,
            timestamp,
            coordinator_epoch,
            None if transaction is None else transaction.first_offset,
        )

    # -- what is judged before it gets its place ----------------------------------------------------------------

    def admit(self, entry: NewEntry) -> ReplicateResult | ProducerRefusedError | None:
        """Judge an entry before it gets its place: None to append it, the original's place, or why it is refused."""
        if entry.kind is not EntryKind.DATA:
            return None
        payload = entry.payload
        batch = read_sequence(payload)
        if batch is None:
            return None
        attributes = unpack_attributes(payload)[0]
        if attributes & CONTROL_MASK:
            return self._judge_marker(decode_marker(payload))
        # Nearly every batch comes right after the producer's last one.
        verdict = None if self._is_next(batch) else self._judge_sequence(batch)
        if verdict is not None or not (attributes & TRANSACTIONAL_MASK or self.transactions.is_open):
            return verdict
        return self._judge_transaction(entry, batch)

    def opens_transaction(self, payload: Buffer) -> bool:
        """Whether a batch needs a guard now: it is transactional, and nothing of its producer is open here.

        A batch that is a duplicate, or is refused, asks nobody.
        """
        batch = read_sequence(payload)
        if batch is None or not is_transactional(payload):
            return False
        return not self._is_part_of_open(batch) and self._judge_sequence(batch) is None

    def _is_part_of_open(self, batch: BatchSequence) -> bool:
        # A client of KIP-890 goes on in its next epoch as soon as the end of its transaction is decided. Its next batch
        # may come before the marker, which would end the next transaction together with the former.
        transaction = self.transactions.open_of(batch.producer_id)
        return transaction is not None and transaction.epoch == batch.epoch

    def last_prepare(self, producer_id: int) -> tuple[Prepare, Index]:
        """Return the newest decision that a marker of this producer names, committed or not, and the marker's entry.

        The entry is NO_INDEX where it is committed; the decision is NO_PREPARE where no marker is known.
        """
        for placed in reversed(self._tail.of(producer_id)):
            if isinstance(placed, PlacedMark) and placed.prepare != NO_PREPARE:
                return placed.prepare, Index(placed.log_index)
        producer = self._table.get(producer_id)
        return (NO_PREPARE if producer is None else producer.prepare), NO_INDEX

    def last_marker(self, producer_id: int) -> Index:
        """Return the entry of the producer's newest marker, of a coordinator or not; NO_INDEX once it is committed."""
        for placed in reversed(self._tail.of(producer_id)):
            if isinstance(placed, PlacedMark) and placed.is_marker:
                return Index(placed.log_index)
        return NO_INDEX

    def _is_next(self, batch: BatchSequence) -> bool:
        last = self._tail.newest(batch.producer_id)
        if last is None:
            producer = self._table.get(batch.producer_id)
            if producer is None or not producer.batches:
                return False
            last = producer.batches[-1]
        if not isinstance(last, PlacedBatch):
            return False
        sequence = last.sequence
        return batch.epoch == sequence.epoch and batch.first == (sequence.last + 1) & SEQUENCE_MASK

    def _judge_sequence(self, batch: BatchSequence) -> ReplicateResult | ProducerRefusedError | None:
        last = self._last(batch.producer_id)
        if last is None:
            return self._judge_unknown(batch)
        if batch.epoch != last.epoch:
            return _judge_other_epoch(batch, last)
        if not batch.is_numbered or batch.is_next_after(last.sequence):
            return None
        # Without the look at the original a retry whose first answer was lost would be refused, and its producer would
        # send it again under another number: the records would be in the log twice (I1 of RFC 0007).
        original = self._find(batch)
        if original is not None:
            index = Index(original.log_index)
            return ReplicateResult(index, index, Offset(original.base_offset), Term(original.term), original.timestamp)
        return self._refuse_out_of_order(batch, last)

    def _judge_transaction(self, entry: NewEntry, batch: BatchSequence) -> ProducerRefusedError | None:
        producer_id = batch.producer_id
        transaction = self.transactions.open_of(producer_id)
        if not is_transactional(entry.payload):
            if transaction is not None:
                return TransactionStateError(
                    f"producer {producer_id} has a transaction open here, and this is no part of it"
                )
            return None
        # X7 of RFC 0021: what was decided since the coordinator was asked holds for this batch, too. Below level 2 the
        # next transaction, which another batch has opened here meanwhile, may have the same epoch.
        is_current = entry.guard == self.fences.guard(producer_id)
        if transaction is not None and (is_current or entry.guard is None):
            if transaction.epoch == batch.epoch:
                return None
            return NotAdmittedError(
                f"producer {producer_id}: the marker of its transaction of epoch {transaction.epoch} is missing here"
            )
        if not is_current:
            return NotAdmittedError(f"producer {producer_id}: the coordinator has not been asked since the last marker")
        if len(self.transactions) >= self._options.open_max:
            return TransactionStateError(
                f"{len(self.transactions)} transactions are open in this partition, the most there may be"
            )
        return None

    def _judge_marker(self, marker: Marker) -> ProducerRefusedError | None:
        last, transaction = self._last(marker.producer_id), self.transactions.open_of(marker.producer_id)
        if last is not None and marker.epoch < last.epoch:
            return InvalidProducerEpochError(
                f"producer {marker.producer_id}: a marker of epoch {marker.epoch}, which is older than {last.epoch}"
            )
        if transaction is None or transaction.first_offset != marker.first_offset:
            return MarkerRefusedError(
                f"producer {marker.producer_id} has no transaction open from {marker.first_offset} on"
            )
        if marker.prepare == NO_PREPARE and marker.epoch != transaction.epoch:
            return MarkerRefusedError(
                f"producer {marker.producer_id} has a transaction open in epoch {transaction.epoch}"
            )
        return None

    # -- following the log --------------------------------------------------------------------------------------

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log.

        Raises:
            CorruptLogError: A marker that cannot be read.
        """
        if entry.kind is not EntryKind.DATA or entry.index <= self._settled_index:
            return
        sequence = read_sequence(entry.payload)
        if sequence is None:
            return
        if sequence.first < 0 or unpack_attributes(entry.payload)[0] & TRANSACTIONAL_MASK:
            placed = self._placed(entry, sequence)
        else:
            timestamp = read_timestamp(entry.payload)
            placed = PlacedBatch(sequence, entry.base_offset, entry.index, entry.term, timestamp)
        self._tail.add(placed, sequence.producer_id)

    def _placed(self, entry: Entry, sequence: BatchSequence) -> PlacedBatch | PlacedMark:
        timestamp = read_timestamp(entry.payload)
        if is_transactional(entry.payload):
            if is_marker(entry.payload):
                return self._placed_marker(entry, timestamp)
            if self.transactions.open_of(sequence.producer_id) is None:
                begun = Transaction(sequence.producer_id, sequence.epoch, entry.index, entry.base_offset, timestamp)
                self.transactions.begin(begun)
        if not sequence.is_numbered:
            return PlacedMark(sequence.producer_id, sequence.epoch, entry.index, entry.term, timestamp)
        return PlacedBatch(sequence, entry.base_offset, entry.index, entry.term, timestamp)

    def _placed_marker(self, entry: Entry, timestamp: int) -> PlacedMark:
        try:
            marker = decode_marker(entry.payload)
        except CorruptRecordsError as error:
            raise CorruptLogError(f"entry {entry.index}: {error}") from error
        self.transactions.end(marker.producer_id, entry.index)
        place = (entry.index, entry.term, timestamp)
        return PlacedMark(marker.producer_id, marker.epoch, *place, marker.prepare, marker.coordinator_epoch)

    def truncate(self, first_removed: Index) -> None:
        """Forget the entries from `first_removed` on; none of them is committed."""
        # A state that was restored may be ahead of the log: what is settled stays.
        self.transactions.truncate(max(first_removed, Index(self._settled_index + 1)))
        self._tail.truncate(first_removed)
        self._table.take_back(self._now_ms())

    def commit(self, index: Index) -> None:
        """Everything up to `index` is final."""
        self._settled_index = max(self._settled_index, index)
        if self.transactions.has_ended:
            self.transactions.settle(min(self._settled_index, self.visible()))
        if not self._tail.reaches(index):
            return
        now_ms = self._now_ms()
        for placed in self._tail.settle(index):
            self._table.settle(placed, now_ms)
        self._table.expire(now_ms, lambda producer_id: self.transactions.holds(producer_id, self._settled_index))

    def snapshot(self) -> Iterator[bytes]:
        """Yield the table, and what is open, as of the last `commit`, part by part."""
        return self._table.encode(list(self.transactions.open_at(self._settled_index)))

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        """Begin from a snapshot; entries at or below `applied_index` are in it and are skipped when noted.

        Raises:
            CorruptLogError: The state cannot be read.
        """
        table = ProducerTable(self._options)
        transactions = yield from table.decode(state, self._now_ms())
        # The next snapshot leaves out what begins above its index.
        if any(each.first_index > applied_index for each in transactions):
            raise CorruptLogError(f"a producer state as of entry {applied_index} has a transaction that begins later")
        self.reset()
        self._table = table
        self.transactions.restore(transactions)
        self._settled_index = self.restored_index = applied_index

    def reset(self) -> None:
        """Begin from nothing."""
        self._table = ProducerTable(self._options)
        self._tail.clear()
        self.transactions.reset()
        self._settled_index = self.restored_index = NO_INDEX

    def _last(self, producer_id: int) -> LastKnown | None:
        return last_known(self._tail.of(producer_id), self._table.get(producer_id))

    def _find(self, batch: BatchSequence) -> PlacedBatch | None:
        producer = self._table.get(batch.producer_id)
        for known in (self._tail.of(batch.producer_id), () if producer is None else producer.batches):
            for placed in reversed(known):
                if isinstance(placed, PlacedBatch) and placed.sequence == batch:
                    return placed
        return None

    def _judge_unknown(self, batch: BatchSequence) -> OutOfOrderSequenceError | None:
        # Who was never here begins with 0: a later batch that overtook the first one on its way through a change of
        # leaders must not become the beginning. Who may have been forgotten goes on where it was (KIP-360).
        is_older = batch.producer_id < self._older_producers
        if batch.first <= 0 or is_older or self._table.may_have_forgotten(batch.producer_id):
            return None
        return OutOfOrderSequenceError(
            f"producer {batch.producer_id} has written nothing here and begins with sequence {batch.first}, not 0"
        )

    def _refuse_out_of_order(self, batch: BatchSequence, last: LastKnown) -> ProducerRefusedError:
        producer = self._table.get(batch.producer_id)
        if producer is not None and producer.has_had(batch):
            return DuplicateSequenceError(
                f"producer {batch.producer_id}: sequences {batch.first} to {batch.last} are committed,"
                " but their offset is no longer known"
            )
        return OutOfOrderSequenceError(
            f"producer {batch.producer_id}: sequence {batch.first} does not follow {last.sequence}", last.term
        )


def _settled(producer: Producer | None) -> Producer:
    assert producer is not None
    return producer


def _judge_other_epoch(batch: BatchSequence, last: LastKnown) -> ProducerRefusedError | None:
    if batch.epoch < last.epoch:
        return InvalidProducerEpochError(
            f"producer {batch.producer_id}: epoch {batch.epoch} is older than {last.epoch}"
        )
    if batch.first > 0:
        return OutOfOrderSequenceError(
            f"producer {batch.producer_id}: epoch {batch.epoch} begins with sequence {batch.first}, not 0", last.term
        )
    return None
