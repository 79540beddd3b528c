"""The newest entries of a log in memory: consumers at the tail, and whoever sends them on, read no file.

What is here follows one another without a gap; with placeholders there are fewer entries than indexes.

Bounded twice: per log, and over all logs of the node, where those that were written longest ago give way.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from model.ids import Index, Offset
from storage.entry import Entry

# To drop as many entries takes the loop a fifth of a millisecond.
_SOME = 128


class TailBudget:
    """Bytes that the tail caches of all logs of a node hold together."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._caches: dict[TailCache, None] = {}
        self.used = 0

    def grow(self, cache: "TailCache", size: int) -> None:
        """`cache` has taken an entry of `size` bytes; the caches that were written longest ago make room."""
        self._caches.pop(cache, None)
        self._caches[cache] = None
        self.used += size
        while self.used > self._limit:
            next(iter(self._caches)).drop_oldest()

    def shrink(self, cache: "TailCache", size: int) -> None:
        """`cache` has dropped `size` bytes."""
        self.used -= size
        if cache.is_empty:
            del self._caches[cache]


class TailCache:
    """The newest entries, by index."""

    def __init__(
        self,
        limit: int,
        budget: TailBudget | None = None,
        on_dropped: Callable[[Entry], None] = lambda entry: None,
    ) -> None:
        """Begin empty; `on_dropped` is told of each entry that leaves for want of room, oldest first."""
        self._limit = limit
        self._budget = budget or TailBudget(limit)
        self._on_dropped = on_dropped
        self._bytes = 0
        self._entries: deque[Entry] = deque()

    def push(self, entry: Entry) -> None:
        """Add the next entry; the oldest leave when there is no room. An entry over the limit empties the cache."""
        assert not self._entries or entry.index == self._entries[-1].last_index + 1
        size = entry.size
        self._entries.append(entry)
        self._bytes += size
        self._budget.grow(self, size)
        while self._bytes > self._limit:
            self.drop_oldest()

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing."""
        return not self._entries

    def drop_oldest(self) -> None:
        """Give up the oldest entry."""
        entry = self._entries.popleft()
        self._forget(entry)
        self._on_dropped(entry)

    def forget_until(self, last: Index) -> None:
        """Drop the entries up to `last`, and tell nobody: others have taken their place in the log."""
        while self._entries and self._entries[0].index <= last:
            self._forget(self._entries.popleft())

    def forget_some(self, last: Index) -> bool:
        """Drop the oldest entries up to `last` as `forget_until` does, where they are many; False: they are few."""
        if len(self._entries) <= _SOME or self._entries[_SOME].index > last:
            return False
        for _ in range(_SOME):
            self._forget(self._entries.popleft())
        return True

    def cut(self, first_removed: Index) -> None:
        """Drop entries from `first_removed` on."""
        while self._entries and self._entries[-1].last_index >= first_removed:
            self._forget(self._entries.pop())

    def _forget(self, entry: Entry) -> None:
        size = entry.size
        self._bytes -= size
        self._budget.shrink(self, size)

    def read(self, first: Index, last: Index, max_bytes: int) -> list[Entry] | None:
        """Return entries from the one that stands for `first` on, at least one, until `last` or `max_bytes`.

        None if that one is not here. A placeholder is returned whole, also where it goes on behind `last`.
        """
        if not self.holds(first):
            return None
        run: list[Entry] = []
        size = 0
        for entry in self._from(first):
            size += entry.size
            if entry.index > last or (run and size > max_bytes):
                break
            run.append(entry)
        return run

    def holds(self, index: Index) -> bool:
        """Whether the entry is here."""
        return bool(self._entries) and self._entries[0].index <= index <= self._entries[-1].last_index

    def holds_offset(self, offset: Offset) -> bool:
        """Whether the entry that holds `offset` is here."""
        return bool(self._entries) and self._entries[0].base_offset <= offset < self._entries[-1].end_offset

    def index_of_offset(self, offset: Offset) -> Index | None:
        """Return the entry that holds `offset`; None if it is older than the cache or newer than the log."""
        if not self.holds_offset(offset):
            return None
        low, high = 0, len(self._entries) - 1
        while low < high:
            middle = (low + high) // 2
            if self._entries[middle].end_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return self._entries[low].index

    def _from(self, first: Index) -> Iterable[Entry]:
        entries = self._entries
        skip = first - entries[0].index
        if entries[-1].last_index - entries[0].index >= len(entries):
            skip = bisect_right(entries, first, key=lambda entry: entry.index) - 1
        # A deque is quick at its ends: consumers at the tail take a few of the newest entries.
        if skip > len(entries) // 2:
            count = len(entries) - skip
            return [entries[-1 - back] for back in range(count - 1, -1, -1)]
        return islice(entries, skip, None)
