"""How large a state table will be once everything is committed that lies in the log."""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", contravariant=True)
V = TypeVar("V")


class SizedTable(Protocol[K_contra]):
    """A table of records by key, with the size of its state bytes."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all records."""
        ...

    @property
    def record_count(self) -> int:
        """How many records there are."""
        ...

    def size_of(self, key: K_contra, /) -> int:
        """Return what the record of `key` takes of the state bytes; 0 without one."""
        ...


class NotedSizes(Generic[K, V]):
    """The sizes of noted records, oldest first, by key. `commit` comes before the table takes the records.

    Args:
        table: What the committed records have left.
        record_size: Returns what a record takes of the state bytes; 0 for one that deletes, which has no value.

    Attributes:
        size_bytes, record_count: Of the table, once it has all noted records.
    """

    def __init__(self, table: SizedTable[K], record_size: Callable[[K, V | None], int]) -> None:
        self._table = table
        self._record_size = record_size
        self._sizes: dict[K, deque[int]] = {}
        self.size_bytes = table.size_bytes
        self.record_count = table.record_count

    def with_records(self, records: Sequence[tuple[K, V | None]]) -> tuple[int, int]:
        """Return bytes and records of the table behind an entry with these records."""
        last: dict[K, int] = {}
        size, count = self.size_bytes, self.record_count
        for key, value in records:
            before, after = last.get(key, -1), self._record_size(key, value)
            if before < 0:
                before = self.size_of(key)
            size += after - before
            count += (after > 0) - (before > 0)
            last[key] = after
        return size, count

    def note(self, records: Sequence[tuple[K, V | None]]) -> None:
        """An entry with these records got its place at the end of the log."""
        self.size_bytes, self.record_count = self.with_records(records)
        for key, value in records:
            self._sizes.setdefault(key, deque()).append(self._record_size(key, value))

    def truncate(self, records: Sequence[tuple[K, V | None]]) -> None:
        """The newest entry, which has these records, is gone."""
        for key, _ in reversed(records):
            removed = self._sizes[key].pop()
            if not self._sizes[key]:
                del self._sizes[key]
            now = self.size_of(key)
            self.size_bytes += now - removed
            self.record_count += (now > 0) - (removed > 0)

    def change(self, key: K, value: V | None) -> None:
        """The table is about to take a value that no noted record has; what is noted of the key comes behind it."""
        if key not in self._sizes:
            before, after = self._table.size_of(key), self._record_size(key, value)
            self.size_bytes += after - before
            self.record_count += (after > 0) - (before > 0)

    def commit(self, key: K) -> None:
        """The oldest record of `key` is about to be applied."""
        sizes = self._sizes[key]
        sizes.popleft()
        if not sizes:
            del self._sizes[key]

    def size_of(self, key: K) -> int:
        """Return what the record of `key` takes behind all that is noted; 0 without one."""
        noted = self._sizes.get(key)
        return noted[-1] if noted else self._table.size_of(key)
