"""The group table behind the log of one partition of `__consumer_offsets`.

    note       the records of an entry are decoded and wait     truncate   those of removed entries are forgotten
    commit     they change the table, in log order              snapshot, restore   the table as bytes

Every replica keeps it up to date, so that the next coordinator has nothing to read. Nothing uncommitted is ever seen.
But what is noted counts where the leader admits an entry: the table must have room for all that lies in the log.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator

from cluster.groups.group_table import GroupTable, record_size
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.groups.records import Key, UnreadableRecordError, Value, decode_record
from cluster.noted_sizes import NotedSizes
from cluster.state_bounds import Fill, StateBound, StateFullError, StateOptions
from model.ids import NO_INDEX, Index
from model.key_value_batch import read_key_values
from model.record_codec import CorruptRecordsError
from raft.replicate_item import NewEntry
from storage.entry import Buffer, Entry, EntryKind

_CURE = "delete groups that nobody uses, or lower offsets.retention.minutes"
_logger = logging.getLogger("cluster")

_Records = list[tuple[Key, Value | None]]


class OffsetsLogState:
    """A `raft.log_state.LogState`.

    Args:
        name: Of the partition, for operators.
        options: Bounds of the table.

    Attributes:
        table: Offsets and groups as of `applied_index`.
        applied_index: The last entry whose records, if it holds any, have changed the table.
        on_applied: Called after each step of that; must not block.
    """

    def __init__(self, name: str = OFFSETS_TOPIC, options: StateOptions | None = None) -> None:
        self.table = GroupTable()
        self.applied_index = NO_INDEX
        options = options or StateOptions()
        self._bytes_bound = StateBound(f"the group table of {name}", "bytes", options.groups_bytes_max, _CURE)
        self._records_bound = StateBound(f"the group table of {name}", "records", options.group_records_max, _CURE)
        self.on_applied: Callable[[], None] = lambda: None
        # Noted and not committed, oldest first.
        self._tail: deque[tuple[Index, _Records]] = deque()
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
        """Refuse what the table would have no room for, behind all that lies in the log; see `state_bounds`."""
        if entry.kind is not EntryKind.DATA:
            return None
        records = _decode(entry.payload)
        ahead = self._ahead
        size, count = ahead.with_records(records)
        refusal = self._bytes_bound.judge(ahead.size_bytes, size)
        refusal = refusal or self._records_bound.judge(ahead.record_count, count)
        self._admitted = (entry.payload, records) if refusal is None else None
        return refusal

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log."""
        admitted, self._admitted = self._admitted, None
        if entry.kind is EntryKind.DATA and entry.index > self.applied_index:
            is_admitted = admitted is not None and admitted[0] is entry.payload
            records = admitted[1] if admitted is not None and is_admitted else _decode(entry.payload)
            if records:
                # G3 of RFC 0009: every replica applies the records in the order of the log.
                assert not self._tail or self._tail[-1][0] < entry.index
                self._tail.append((entry.index, records))
                self._ahead.note(records)

    def truncate(self, first_removed: Index) -> None:
        """Forget the records of the entries from `first_removed` on; none of them is committed."""
        while self._tail and self._tail[-1][0] >= first_removed:
            self._ahead.truncate(self._tail.pop()[1])

    def commit(self, index: Index) -> None:
        """Apply everything up to `index`."""
        while self._tail and self._tail[0][0] <= index:
            noted, records = self._tail.popleft()
            # G3 of RFC 0009: no record changes the table twice.
            assert noted > self.applied_index
            for key, value in records:
                self._ahead.commit(key)
                self.table.apply(key, value)
        # B2 of RFC 0008: what is counted ahead is what the table has once all of it is applied.
        assert self._tail or self._ahead.size_bytes == self.table.size_bytes
        assert self._tail or self._ahead.record_count == self.table.record_count
        self._advance_applied(index)

    def fills(self) -> list[Fill]:
        """Return how full the table is, by each of its bounds; what is noted counts."""
        return [self._bytes_bound.fill(self._ahead.size_bytes), self._records_bound.fill(self._ahead.record_count)]

    def snapshot(self) -> Iterator[bytes]:
        """Yield the table as of the last `commit`, part by part."""
        return self.table.encode()

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        """Begin from a snapshot; entries at or below `applied_index` are in it and are skipped when noted.

        Raises:
            CorruptLogError: The state cannot be read.
        """
        table = GroupTable()
        yield from table.decode(state)
        self._begin(table)
        self._advance_applied(applied_index)

    def reset(self) -> None:
        """Begin from nothing."""
        self._begin(GroupTable())
        self.applied_index = NO_INDEX

    def _begin(self, table: GroupTable) -> None:
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
                _logger.warning("a record of __consumer_offsets is left out: %s", error)
    except CorruptRecordsError as error:
        _logger.warning("records of __consumer_offsets are left out: %s", error)
    return found
