"""How large a group table will be once everything is committed that lies in the log."""

from collections import deque
from collections.abc import Sequence

from cluster.groups.group_table import GroupTable, record_size
from cluster.groups.records import Key, Value

Records = Sequence[tuple[Key, Value | None]]


class NotedSizes:
    """The sizes of noted records, oldest first, by key. `commit` comes before the table takes the records.

    Attributes:
        size_bytes, record_count: Of the table, at the end of the log.
    """

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._sizes: dict[Key, deque[int]] = {}
        self.size_bytes = table.size_bytes
        self.record_count = table.record_count

    def with_records(self, records: Records) -> tuple[int, int]:
        """Return bytes and records of the table behind an entry with these records."""
        last: dict[Key, int] = {}
        size, count = self.size_bytes, self.record_count
        for key, value in records:
            before, after = last.get(key, -1), record_size(key, value)
            if before < 0:
                before = self._size_of(key)
            size += after - before
            count += (after > 0) - (before > 0)
            last[key] = after
        return size, count

    def note(self, records: Records) -> None:
        """An entry with these records got its place at the end of the log."""
        self.size_bytes, self.record_count = self.with_records(records)
        for key, value in records:
            self._sizes.setdefault(key, deque()).append(record_size(key, value))

    def truncate(self, records: Records) -> None:
        """The newest entry, which has these records, is gone."""
        for key, _ in reversed(records):
            removed = self._sizes[key].pop()
            if not self._sizes[key]:
                del self._sizes[key]
            now = self._size_of(key)
            self.size_bytes += now - removed
            self.record_count += (now > 0) - (removed > 0)

    def commit(self, key: Key) -> None:
        """The oldest record of `key` is about to be applied."""
        sizes = self._sizes[key]
        sizes.popleft()
        if not sizes:
            del self._sizes[key]

    def _size_of(self, key: Key) -> int:
        noted = self._sizes.get(key)
        return noted[-1] if noted else self._table.size_of(key)
