"""The group table behind the log of one partition of `__consumer_offsets`.

    note       the records of an entry are decoded and wait     truncate   those of removed entries are forgotten
    commit     they change the table, in log order              snapshot, restore   the table as bytes

Every replica keeps it up to date, so that the next coordinator has nothing to read. Nothing uncommitted is ever seen.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator

from cluster.groups.group_table import GroupTable
from cluster.groups.records import Key, UnreadableRecordError, Value, decode_record
from model.ids import NO_INDEX, Index
from model.key_value_batch import read_key_values
from model.record_codec import CorruptRecordsError
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind

_logger = logging.getLogger("cluster")


class GroupState:
    """A `raft.log_state.LogState`.

    Attributes:
        table: Offsets and groups as of `applied_index`.
        applied_index: The last entry whose records, if it holds any, have changed the table.
        on_applied: Called after each step of that; must not block.
    """

    def __init__(self) -> None:
        self.table = GroupTable()
        self.applied_index = NO_INDEX
        self.on_applied: Callable[[], None] = lambda: None
        # Noted and not committed, oldest first.
        self._tail: deque[tuple[Index, list[tuple[Key, Value | None]]]] = deque()
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

    def admit(self, entry: NewEntry) -> None:
        """Admit every entry: the coordinator has judged what it writes."""

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log."""
        if entry.kind is EntryKind.DATA and entry.index > self.applied_index:
            records = _decode(entry)
            if records:
                self._tail.append((entry.index, records))

    def truncate(self, first_removed: Index) -> None:
        """Forget the records of the entries from `first_removed` on; none of them is committed."""
        while self._tail and self._tail[-1][0] >= first_removed:
            self._tail.pop()

    def commit(self, index: Index) -> None:
        """Apply everything up to `index`."""
        while self._tail and self._tail[0][0] <= index:
            for key, value in self._tail.popleft()[1]:
                self.table.apply(key, value)
        self._note_applied(index)

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
        self._tail.clear()
        self.table = table
        self._note_applied(applied_index)

    def reset(self) -> None:
        """Begin from nothing."""
        self._tail.clear()
        self.table = GroupTable()
        self.applied_index = NO_INDEX

    def _note_applied(self, index: Index) -> None:
        self.applied_index = max(self.applied_index, index)
        for wanted, waiter in self._waiters:
            if wanted <= self.applied_index and not waiter.done():
                waiter.set_result(None)
        self.on_applied()


def _decode(entry: Entry) -> list[tuple[Key, Value | None]]:
    """Return what can be read: a record of a newer version is skipped, as in Kafka, and so is what clients once wrote
    to a topic of that name. All replicas skip the same."""
    found = []
    try:
        for record in read_key_values(entry.payload):
            try:
                found.append(decode_record(record))
            except UnreadableRecordError as error:
                _logger.warning("entry %d of __consumer_offsets: %s", entry.index, error)
    except CorruptRecordsError as error:
        _logger.warning("entry %d of __consumer_offsets: %s", entry.index, error)
    return found
