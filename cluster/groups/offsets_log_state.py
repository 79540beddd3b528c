"""The group table behind the log of one partition of `__consumer_offsets`; `coordinator_log_state` says how.

Transactions may be open in the log: batches with offsets that count only if their producer commits (RFC 0021, section
8). Who their producers are, what is open, and which batch or marker may be appended is known as in a partition with
data (`cluster.producer_state`). Here is what they do to the table (`pending_offsets`).

A marker ends what is pending of its producer, and a deletion what is pending at its place. Both may be very much. So
they are noted as they are; what they end is looked up in the table when they are settled, in steps. In between a place
is either pending or has its offset, and readers wait until the whole entry is settled.

What lies in the log is counted ahead, with no less than it will take: a batch of a transaction as if nothing of it
were there, and a marker or a deletion as if it ended nothing. Once they are settled the count is exact.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from cluster.coordinator_log_state import CoordinatorLogState, Place
from cluster.groups.group_table import FORMAT_2_BYTES, GroupTable, record_size
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.groups.pending_offsets import (
    Effects,
    EndOfTransaction,
    PendingKey,
    TableKey,
    TableValue,
    effects_of_transactional,
)
from cluster.groups.records import Key, OffsetKey, Value, decode_record
from cluster.noted_sizes import NotedSizes
from cluster.producer_batch import is_marker, is_transactional, read_sequence
from cluster.producer_state import ProducerState
from cluster.producer_table import ProducerOptions
from cluster.state_bounds import StateBound, StateOptions
from cluster.transactions.fences import Fences
from cluster.transactions.open_transactions import OpenTransactions
from model.control_batch import MarkerType, Prepare, decode_marker
from model.ids import NO_INDEX, Index
from model.key_value_batch import KeyValue
from raft.errors import RaftError
from raft.replicate_item import NewEntry, ReplicateResult
from storage.entry import Buffer, Entry, EntryKind
from storage.errors import CorruptLogError
from storage.snapshot_file import STATE_BYTES_MAX

_CURE = "delete groups that nobody uses, or lower offsets.retention.minutes"


class OffsetsLogState(CoordinatorLogState[TableKey, TableValue, GroupTable]):
    """Its table has offsets and groups. A `cluster.transactions.log_state.TransactionalLogState`.

    Args:
        name: Of the partition, for operators.
        options: Bounds of the table.
        now_ms: As of `ProducerState`.
        producer_options: Bounds of what is known of transactional producers.

    Attributes:
        producers: What is known of transactional producers.
    """

    topic = OFFSETS_TOPIC

    def __init__(
        self,
        name: str = OFFSETS_TOPIC,
        options: StateOptions | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        producer_options: ProducerOptions | None = None,
    ) -> None:
        options, what = options or StateOptions(), f"the group table of {name}"
        producer_options = producer_options or ProducerOptions()
        # A snapshot holds both.
        room = max(1, STATE_BYTES_MAX - FORMAT_2_BYTES - producer_options.state_bytes_max)
        super().__init__(
            GroupTable,
            lambda table: NotedSizes(table, record_size),
            StateBound(what, "bytes", min(options.groups_bytes_max, room), _CURE),
            StateBound(what, "records", options.group_records_max, _CURE),
        )
        self.producers = ProducerState(now_ms, producer_options)
        # In how many noted batches of transactions a group has offsets.
        self._noted_groups: Counter[str] = Counter()

    def is_pending(self, group_id: str) -> bool:
        """Whether a group has pending offsets, or a batch lies in the log that is not settled and has some."""
        return bool(self.table.pending.places(group_id)) or group_id in self._noted_groups

    # -- what entries do to the table ---------------------------------------------------------------------------

    def decode_record(self, record: KeyValue) -> tuple[Key, Value | None]:
        """See `records`."""
        return decode_record(record)

    def decode(self, batch: Buffer) -> Effects:
        """A marker has no record of the table."""
        return [] if _is_transactional(batch) and is_marker(batch) else super().decode(batch)

    def effects(self, payload: Buffer, records: Effects, index: Index) -> Effects:
        """See `pending_offsets`."""
        if not _is_transactional(payload):
            return records
        if is_marker(payload):
            marker = decode_marker(payload)
            return [(EndOfTransaction(marker.producer_id, marker.type is MarkerType.COMMIT), None)]
        sequence = read_sequence(payload)
        assert sequence is not None
        return effects_of_transactional(sequence.producer_id, records, index)

    def apply(self, key: TableKey, value: TableValue | None, place: Place) -> None:
        """Take one record; a pending offset takes the place of the former one of its producer."""
        if isinstance(key, PendingKey):
            former = self.table.pending.of_producer(key.producer_id).get(key.place)
            if former is not None and former.log_index != key.log_index:
                self._change(key._replace(log_index=former.log_index), None)
        self.table.apply(key, value, place.log_index)

    def settle_beside(self, effects: Effects, room: int) -> int | None:
        """End what is pending of a producer, or at a place that is deleted."""
        pending, left = self.table.pending, room
        for key, value in effects:
            if not pending:
                break
            if isinstance(key, EndOfTransaction):
                left -= self._end_some(key, left)
                if pending.of_producer(key.producer_id):
                    return None
            elif value is None and isinstance(key, OffsetKey):
                left -= self._delete_some(key, left)
                if pending.producers_at(key):
                    return None
        return left

    def _end_some(self, end: EndOfTransaction, room: int) -> int:
        pending = self.table.pending
        some = list(islice(pending.of_producer(end.producer_id).items(), room))
        for place, each in some:
            is_applied = end.is_commit and not pending.is_overtaken(place, each.log_index)
            self._change(PendingKey(end.producer_id, *place, each.log_index), None)
            if is_applied:
                self._change(place, each.offset, each.log_index)
        return len(some)

    def _delete_some(self, place: OffsetKey, room: int) -> int:
        pending = self.table.pending
        some = list(islice(pending.producers_at(place), room))
        for producer_id in some:
            index = pending.of_producer(producer_id)[place].log_index
            self._change(PendingKey(producer_id, *place, index), None)
        return len(some)

    def _change(self, key: TableKey, value: TableValue | None, log_index: Index = NO_INDEX) -> None:
        """Change what no record in the log names."""
        self._ahead.change(key, value)
        self.table.apply(key, value, log_index)

    # -- LogState -----------------------------------------------------------------------------------------------

    def admit(self, entry: NewEntry) -> ReplicateResult | RaftError | None:
        """Judge a batch of a transaction, or a marker, as a partition with data does; then whether there is room.

        A marker needs none: an offset takes less than while it is pending.
        """
        if entry.kind is EntryKind.DATA and _is_transactional(entry.payload):
            verdict = self.producers.admit(entry)
            if verdict is not None or is_marker(entry.payload):
                return verdict
        return super().admit(entry)

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log.

        Raises:
            CorruptLogError: A marker that cannot be read.
        """
        if entry.kind is EntryKind.DATA and _is_transactional(entry.payload):
            self.producers.note(entry)
        super().note(entry)

    def on_noted(self, effects: Effects) -> None:
        """Count the groups of a batch of a transaction."""
        self._noted_groups.update(_pending_groups(effects))

    def on_truncated(self, effects: Effects) -> None:
        """Count them no more."""
        self.on_committed(effects)

    def on_committed(self, effects: Effects) -> None:
        """Count them no more."""
        for group_id in _pending_groups(effects):
            self._noted_groups[group_id] -= 1
            if not self._noted_groups[group_id]:
                del self._noted_groups[group_id]

    def truncate(self, first_removed: Index) -> None:
        """Forget the records of the entries from `first_removed` on; none of them is committed."""
        super().truncate(first_removed)
        self.producers.truncate(first_removed)

    def commit_some(self, index: Index) -> Index:
        """Apply what is up to `index`, or a part of it; what a producer has open stays so until all of it is ended."""
        reached = super().commit_some(index)
        self.producers.commit(reached)
        return reached

    def snapshot(self) -> Iterator[bytes]:
        """Yield the table as of the last `commit`, part by part, and what is known of transactional producers."""
        return self.table.encode(None if self.producers.is_empty else self.producers.snapshot())

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        """Begin from a snapshot; entries at or below `applied_index` are in it and are skipped when noted.

        Raises:
            CorruptLogError: The state cannot be read.
        """
        table = GroupTable()
        producers = yield from table.decode(state)
        yield from self.producers.restore(producers, applied_index)
        if any(self.transactions.open_of(each) is None for each in table.pending.producers):
            raise CorruptLogError("a group state has pending offsets of a transaction that is not open")
        self._begin(table)
        self._advance_applied(applied_index)

    def reset(self) -> None:
        """Begin from nothing."""
        super().reset()
        self.producers.reset()

    def _begin(self, table: GroupTable) -> None:
        super()._begin(table)
        self._noted_groups.clear()

    # -- TransactionalLogState ----------------------------------------------------------------------------------

    @property
    def transactions(self) -> OpenTransactions:
        """What is open."""
        return self.producers.transactions

    @property
    def fences(self) -> Fences:
        """Guards of batches that ask the coordinator."""
        return self.producers.fences

    @property
    def restored_index(self) -> Index:
        """What the state was restored as of."""
        return self.producers.restored_index

    @property
    def visible(self) -> Callable[[], Index]:
        """Tells up to where readers see the log."""
        return self.producers.visible

    @visible.setter
    def visible(self, visible: Callable[[], Index]) -> None:
        self.producers.visible = visible

    def opens_transaction(self, payload: Buffer) -> bool:
        """Whether a batch needs a guard now."""
        return self.producers.opens_transaction(payload)

    def last_prepare(self, producer_id: int) -> tuple[Prepare, Index]:
        """As `ProducerState.last_prepare`."""
        return self.producers.last_prepare(producer_id)

    def last_marker(self, producer_id: int) -> Index:
        """As `ProducerState.last_marker`."""
        return self.producers.last_marker(producer_id)


def _pending_groups(effects: Effects) -> set[str]:
    if not effects or not isinstance(effects[0][0], PendingKey):
        return set()
    return {key.group for key, _ in effects if isinstance(key, PendingKey)}


def _is_transactional(payload: Buffer) -> bool:
    """Whether a batch belongs to a transaction, or ends one. What clients once wrote here does neither."""
    return read_sequence(payload) is not None and is_transactional(payload)
