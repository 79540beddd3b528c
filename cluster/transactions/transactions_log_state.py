"""The transaction table behind the log of one partition of `__transaction_state`.

    note       the records of an entry are decoded and wait     truncate   those of removed entries are forgotten
    commit     they change the table, in log order              snapshot, restore   the table as bytes

Every replica keeps it up to date, so that the next coordinator has nothing to read. Nothing uncommitted is ever seen:
what a coordinator acts on has been decided.

The leader refuses an entry for whose new ids and added partitions the table has no room, behind all that lies in the
log. What ends a transaction is always taken, and it adds a few bytes at most: a full table must not keep anything open.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cluster.noted_sizes import NotedSizes
from cluster.state_bounds import Fill, StateBound, StateFullError, StateOptions
from cluster.transactions.records import StoredTransaction, TransactionState, UnreadableRecordError, decode_record
from cluster.transactions.transaction_table import TransactionTable, record_size
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from model.control_batch import Prepare
from model.ids import NO_INDEX, Index
from model.key_value_batch import read_key_values
from model.record_codec import CorruptRecordsError
from raft.replicate_item import NewEntry
from storage.entry import Buffer, Entry, EntryKind
from storage.snapshot_file import STATE_BYTES_MAX

_CURE = "use fewer transactional ids, or lower transactional.id.expiration.ms"
_logger = logging.getLogger("cluster")

_Records = list[tuple[str, StoredTransaction | None]]


class _Noted(NamedTuple):
    """The records of one entry that is not committed yet."""

    place: Prepare
    records: _Records


class TransactionsLogState:
    """A `raft.log_state.LogState`.

    Args:
        name: Of the partition, for operators.
        options: Bounds of the table.

    Attributes:
        table: Transactional ids as of `applied_index`.
        applied_index: The last entry whose records, if it holds any, have changed the table.
        on_applied: Called after each step of that; must not block.
    """

    def __init__(self, name: str = TRANSACTIONS_TOPIC, options: StateOptions | None = None) -> None:
        self.table = TransactionTable()
        self.applied_index = NO_INDEX
        options = options or StateOptions()
        what = f"the transaction table of {name}"
        self._bytes_bound = StateBound(what, "bytes", options.transactions_bytes_max, _CURE)
        self._ids_bound = StateBound(what, "transactional ids", options.transactional_ids_max, _CURE)
        self.on_applied: Callable[[], None] = lambda: None
        # Noted and not committed, oldest first.
        self._tail: deque[_Noted] = deque()
        self._ahead = NotedSizes(self.table, record_size)
        # What was admitted last, which is noted next: its records need not be decoded twice.
        self._admitted: tuple[Buffer, _Records] | None = None
        self._waiters: list[tuple[Index, asyncio.Future[None]]] = []

    async def wait_applied(self, index: Index) -> None:
        """Return once `index` is applied. The caller bounds the wait with `asyncio.timeout`."""
        if self.applied_index >= index:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((index, waiter))
        try:
            await waiter
        finally:
            self._waiters = [each for each in self._waiters if each[1] is not waiter]

    # -- LogState -----------------------------------------------------------------------------------------------

    def admit(self, entry: NewEntry) -> StateFullError | None:
        """Refuse new ids and added partitions that the table has no room for; see `state_bounds`."""
        if entry.kind is not EntryKind.DATA:
            return None
        records = _decode(entry.payload)
        refusal = self._judge(records)
        self._admitted = (entry.payload, records) if refusal is None else None
        return refusal

    def _judge(self, records: _Records) -> StateFullError | None:
        size, count = self._ahead.with_records(records)
        allowed = None if any(self._adds(*record) for record in records) else STATE_BYTES_MAX
        refusal = self._bytes_bound.judge(self._ahead.size_bytes, size, allowed=allowed)
        return refusal or self._ids_bound.judge(self._ahead.record_count, count)

    def _adds(self, transactional_id: str, value: StoredTransaction | None) -> bool:
        """Whether a record adds an id or partitions."""
        if value is None:
            return False
        return value.state is TransactionState.ONGOING or not self._ahead.size_of(transactional_id)

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log."""
        admitted, self._admitted = self._admitted, None
        if entry.kind is EntryKind.DATA and entry.index > self.applied_index:
            is_admitted = admitted is not None and admitted[0] is entry.payload
            records = admitted[1] if admitted is not None and is_admitted else _decode(entry.payload)
            if records:
                # Every replica applies the records in the order of the log.
                assert not self._tail or self._tail[-1].place.index < entry.index
                self._tail.append(_Noted(Prepare(entry.term, entry.index), records))
                self._ahead.note(records)

    def truncate(self, first_removed: Index) -> None:
        """Forget the records of the entries from `first_removed` on; none of them is committed."""
        while self._tail and self._tail[-1].place.index >= first_removed:
            self._ahead.truncate(self._tail.pop().records)

    def commit(self, index: Index) -> None:
        """Apply everything up to `index`."""
        while self._tail and self._tail[0].place.index <= index:
            place, records = self._tail.popleft()
            # No record changes the table twice.
            assert place.index > self.applied_index
            for transactional_id, value in records:
                self._ahead.commit(transactional_id)
                self.table.apply(transactional_id, value, place)
        # B2 of RFC 0008: what is counted ahead is what the table has once all of it is applied.
        assert self._tail or self._ahead.size_bytes == self.table.size_bytes
        assert self._tail or self._ahead.record_count == self.table.record_count
        self._advance_applied(index)

    def fills(self) -> list[Fill]:
        """Return how full the table is, by each of its bounds; what is noted counts."""
        return [self._bytes_bound.fill(self._ahead.size_bytes), self._ids_bound.fill(self._ahead.record_count)]

    def snapshot(self) -> Iterator[bytes]:
        """Yield the table as of the last `commit`, part by part."""
        return self.table.encode()

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        """Begin from a snapshot; entries at or below `applied_index` are in it and are skipped when noted.

        Raises:
            CorruptLogError: The state cannot be read.
        """
        table = TransactionTable()
        yield from table.decode(state)
        self._begin(table)
        self._advance_applied(applied_index)

    def reset(self) -> None:
        """Begin from nothing."""
        self._begin(TransactionTable())
        self.applied_index = NO_INDEX

    def _begin(self, table: TransactionTable) -> None:
        self._tail.clear()
        self.table, self._ahead = table, NotedSizes(table, record_size)

    def _advance_applied(self, index: Index) -> None:
        self.applied_index = max(self.applied_index, index)
        for wanted, waiter in self._waiters:
            if wanted <= self.applied_index and not waiter.done():
                waiter.set_result(None)
        self.on_applied()


def _decode(batch: Buffer) -> _Records:
    """Return what can be read: a record of a newer version is skipped, as in Kafka, and so is what clients once wrote
    to a topic of that name. All replicas skip the same."""
    found = []
    try:
        for record in read_key_values(batch):
            try:
                found.append(decode_record(record))
            except UnreadableRecordError as error:
                _logger.warning("a record of %s is left out: %s", TRANSACTIONS_TOPIC, error)
    except CorruptRecordsError as error:
        _logger.warning("records of %s are left out: %s", TRANSACTIONS_TOPIC, error)
    return found
