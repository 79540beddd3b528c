"""The group table behind the log of one partition of `__consumer_offsets`; `coordinator_log_state` says how.

Transactions may be open in the log: batches with offsets that count only if their producer commits (RFC 0021, section
8). Who their producers are, what is open, and which batch or marker may be appended is known as in a partition with
data (`cluster.producer_state`). Here is what they do to the table (`pending_offsets`).
"""

from collections import deque
from collections.abc import Callable, Iterator

from cluster.coordinator_log_state import CoordinatorLogState, Place
from cluster.groups.group_table import FORMAT_2_BYTES, GroupTable, record_size
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.groups.pending_offsets import (
    Effects,
    PendingKey,
    PendingOffset,
    PendingOffsets,
    TableKey,
    TableValue,
    effects_of_marker,
    effects_of_plain,
    effects_of_transactional,
)
from cluster.groups.records import Key, Value, decode_record
from cluster.noted_sizes import NotedSizes
from cluster.producer_batch import is_marker, is_transactional, read_sequence
from cluster.producer_state import ProducerState
from cluster.producer_table import ProducerOptions
from cluster.state_bounds import StateBound, StateOptions
from cluster.transactions.fences import Fences
from cluster.transactions.open_transactions import OpenTransactions
from model.control_batch import MarkerType, Prepare, decode_marker
from model.ids import Index
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
        # What is pending behind all that is noted, and how noted entries are undone in it, oldest first.
        self._pending_ahead = PendingOffsets()
        self._undo: deque[tuple[Index, list[tuple[PendingKey, PendingOffset | None]]]] = deque()

    def is_pending(self, group_id: str) -> bool:
        """Whether a group has pending offsets: as committed entries say, or as all that lies in the log says."""
        return bool(self.table.pending.places(group_id) or self._pending_ahead.places(group_id))

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
            return effects_of_plain(records, self._pending_ahead)
        if is_marker(payload):
            marker = decode_marker(payload)
            is_commit = marker.type is MarkerType.COMMIT
            return effects_of_marker(marker.producer_id, self._pending_ahead, is_commit=is_commit)
        sequence = read_sequence(payload)
        assert sequence is not None
        return effects_of_transactional(sequence.producer_id, records, index)

    def apply(self, key: TableKey, value: TableValue | None, place: Place) -> None:
        """Where the record lies is nothing to the table."""
        self.table.apply(key, value)

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

    def on_noted(self, index: Index, effects: Effects) -> None:
        """Keep what is pending at the end of the log."""
        undo = [
            (key, self._pending_ahead.put(key, value))
            for key, value in effects
            if isinstance(key, PendingKey) and (value is None or isinstance(value, PendingOffset))
        ]
        if undo:
            self._undo.append((index, undo))

    def truncate(self, first_removed: Index) -> None:
        """Forget the records of the entries from `first_removed` on; none of them is committed."""
        super().truncate(first_removed)
        self.producers.truncate(first_removed)
        while self._undo and self._undo[-1][0] >= first_removed:
            for key, before in reversed(self._undo.pop()[1]):
                self._pending_ahead.put(key, before)

    def commit(self, index: Index) -> None:
        """Apply everything up to `index`."""
        self.producers.commit(index)
        while self._undo and self._undo[0][0] <= index:
            self._undo.popleft()
        super().commit(index)

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
        self._undo.clear()
        self._pending_ahead = table.pending.copy()

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


def _is_transactional(payload: Buffer) -> bool:
    """Whether a batch belongs to a transaction, or ends one. What clients once wrote here does neither."""
    return read_sequence(payload) is not None and is_transactional(payload)
