"""The idempotent producers of one partition: what makes a retry of a batch harmless (RFC 0007).

    tail   uncommitted batches of producers, in log order    note -> +    truncate -> -    commit -> settled
    table  what committed entries say of each producer       snapshot, restore

A lookup sees the tail first, then the table. So a batch that is written but not committed is known as well: its retry
shares its outcome instead of being answered from memory (counterexample 8), and when it is truncated, the retry is
appended anew. Batches without a producer cost one look at 8 bytes of their header.

Source: KIP-98, KIP-360; Raft's rule that state is a function of the log.
"""

from collections import deque
from collections.abc import Callable, Iterator

from cluster.producer_batch import BatchSequence, read_sequence, read_timestamp
from cluster.producer_errors import (
    DuplicateSequenceError,
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
    ProducerRefusedError,
)
from cluster.producer_table import PlacedBatch, ProducerOptions, ProducerTable
from cluster.state_bounds import Fill
from model.ids import Index, Offset, Term
from raft.replicate_item import NewEntry, ReplicateResult
from storage.entry import Entry, EntryKind

_CURE_MANY_PRODUCERS = (
    "let clients keep their producers: whoever has been silent longest is forgotten, and a retry of its last batches"
    " may be written twice"
)


class ProducerState:
    """A `raft.log_state.LogState`.

    Args:
        now_ms: Milliseconds of a clock that nobody can set: it decides about expiry and nothing else. A wall clock that
            jumps a day ahead would forget everybody who waits for an answer, and append their retries again.
        options: Bounds of the table.
        older_producers: Producers with smaller ids may have written to another topic of this name before, and go on
            where they were. The same on all replicas.
    """

    def __init__(
        self, now_ms: Callable[[], int], options: ProducerOptions | None = None, older_producers: int = 0
    ) -> None:
        self._now_ms = now_ms
        self._options = options or ProducerOptions()
        self._older_producers = older_producers
        self._table = ProducerTable(self._options)
        self._tail: deque[PlacedBatch] = deque()
        # The same batches by producer; nobody without any.
        self._tails: dict[int, deque[PlacedBatch]] = {}
        self._settled_index = 0

    @property
    def producer_count(self) -> int:
        """Producers in the settled table."""
        return len(self._table)

    def fill(self, name: str) -> Fill:
        """Return how full the settled table is; `name` is the partition's. A full one refuses nobody."""
        maximum = self._options.producers_max
        return Fill(f"the producers of {name}", "producers", len(self._table), maximum, 0, _CURE_MANY_PRODUCERS)

    @property
    def evicted(self) -> int:
        """How many producers this life of the replica has forgotten because there were too many."""
        return self._table.evicted

    def newest_batches(self) -> list[PlacedBatch]:
        """Return the newest batch of every producer that is known, committed or not, in order of producer id."""
        newest = {producer_id: self._table.newest_batch(producer_id) for producer_id in self._table}
        newest |= {producer_id: batches[-1] for producer_id, batches in self._tails.items()}
        return [newest[producer_id] for producer_id in sorted(newest)]

    def admit(self, entry: NewEntry) -> ReplicateResult | ProducerRefusedError | None:
        """Judge an entry before it gets its place: None to append it, the original's place, or why it is refused."""
        if entry.kind is not EntryKind.DATA:
            return None
        batch = read_sequence(entry.payload)
        if batch is None:
            return None
        newest = self._newest(batch.producer_id)
        if newest is None:
            return self._judge_unknown(batch)
        last = newest.sequence
        if batch.epoch != last.epoch:
            return _judge_other_epoch(batch, newest)
        if batch.is_next_after(last.last):
            return None
        # Without the look at the original a retry whose first answer was lost would be refused, and its producer would
        # send it again under another number: the records would be in the log twice (I1 of RFC 0007).
        original = self._find(batch)
        if original is not None:
            index = Index(original.log_index)
            return ReplicateResult(index, index, Offset(original.base_offset), Term(original.term), original.timestamp)
        return self._refuse_out_of_order(batch, newest)

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log."""
        if entry.kind is not EntryKind.DATA or entry.index <= self._settled_index:
            return
        sequence = read_sequence(entry.payload)
        if sequence is None:
            return
        batch = PlacedBatch(sequence, entry.base_offset, entry.index, entry.term, read_timestamp(entry.payload))
        assert not self._tail or self._tail[-1].log_index < batch.log_index, "entries are noted in log order"
        self._tail.append(batch)
        self._tails.setdefault(sequence.producer_id, deque()).append(batch)

    def truncate(self, first_removed: Index) -> None:
        """Forget the batches from `first_removed` on; none of them is committed."""
        while self._tail and self._tail[-1].log_index >= first_removed:
            batch = self._tail.pop()
            producer_id = batch.sequence.producer_id
            batches = self._tails[producer_id]
            # I2 of RFC 0007: the newest batch of the log is the newest of its producer. Otherwise the removed batch
            # would stay here, and its retry would be answered as a duplicate.
            assert batches[-1] is batch
            batches.pop()
            if not batches:
                del self._tails[producer_id]

    def commit(self, index: Index) -> None:
        """Everything up to `index` is final."""
        self._settled_index = max(self._settled_index, index)
        if not self._tail or self._tail[0].log_index > index:
            return
        now_ms = self._now_ms()
        while self._tail and self._tail[0].log_index <= index:
            batch = self._tail.popleft()
            producer_id = batch.sequence.producer_id
            batches = self._tails[producer_id]
            # I2 of RFC 0007: the oldest batch of the log is the oldest of its producer.
            assert batches[0] is batch
            batches.popleft()
            if not batches:
                del self._tails[producer_id]
            self._table.settle(batch, now_ms)
        self._table.expire(now_ms)

    def snapshot(self) -> Iterator[bytes]:
        """Yield the table as of the last `commit`, part by part."""
        return self._table.encode()

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        """Begin from a snapshot; entries at or below `applied_index` are in it and are skipped when noted.

        Raises:
            CorruptLogError: The state cannot be read.
        """
        table = ProducerTable(self._options)
        yield from table.decode(state, self._now_ms())
        self.reset()
        self._table = table
        self._settled_index = applied_index

    def reset(self) -> None:
        """Begin from nothing."""
        self._table = ProducerTable(self._options)
        self._tail.clear()
        self._tails.clear()
        self._settled_index = 0

    def _newest(self, producer_id: int) -> PlacedBatch | None:
        tail = self._tails.get(producer_id)
        if tail:
            return tail[-1]
        producer = self._table.get(producer_id)
        return None if producer is None else producer.batches[-1]

    def _find(self, batch: BatchSequence) -> PlacedBatch | None:
        for placed in reversed(self._tails.get(batch.producer_id, ())):
            if placed.sequence == batch:
                return placed
        producer = self._table.get(batch.producer_id)
        if producer is not None:
            for placed in reversed(producer.batches):
                if placed.sequence == batch:
                    return placed
        return None

    def _judge_unknown(self, batch: BatchSequence) -> OutOfOrderSequenceError | None:
        # Who was never here begins with 0: a later batch that overtook the first one on its way through a change of
        # leaders must not become the beginning. Who may have been forgotten goes on where it was (KIP-360).
        is_older = batch.producer_id < self._older_producers
        if batch.first == 0 or is_older or self._table.may_have_forgotten(batch.producer_id):
            return None
        return OutOfOrderSequenceError(
            f"producer {batch.producer_id} has written nothing here and begins with sequence {batch.first}, not 0"
        )

    def _refuse_out_of_order(self, batch: BatchSequence, newest: PlacedBatch) -> ProducerRefusedError:
        producer = self._table.get(batch.producer_id)
        if producer is not None and producer.has_had(batch):
            return DuplicateSequenceError(
                f"producer {batch.producer_id}: sequences {batch.first} to {batch.last} are committed,"
                " but their offset is no longer known"
            )
        return OutOfOrderSequenceError(
            f"producer {batch.producer_id}: sequence {batch.first} does not follow {newest.sequence.last}", newest.term
        )


def _judge_other_epoch(batch: BatchSequence, newest: PlacedBatch) -> ProducerRefusedError | None:
    last = newest.sequence
    if batch.epoch < last.epoch:
        return InvalidProducerEpochError(
            f"producer {batch.producer_id}: epoch {batch.epoch} is older than {last.epoch}"
        )
    if batch.first != 0:
        return OutOfOrderSequenceError(
            f"producer {batch.producer_id}: epoch {batch.epoch} begins with sequence {batch.first}, not 0", newest.term
        )
    return None
