"""What left the tail cache of a led log, in memory for consumers: a load is often read as soon as it is written.

Large appends pass the page cache by (`runtime.direct_io`), so without this the first reader of what was just written
would wait for the disk, and the kernel would take fresh pages for it. Only logs that serve readers keep anything here.
All logs of a node share one bound; those that were written or read longest ago give way, a block at a time.
"""

import asyncio
from bisect import bisect_right
from typing import NamedTuple

from model.ids import Index, Offset
from storage.entry import Entry
from storage.read_ahead import ReadAheadBudget
from storage.rows_budget import RowsBudget
from storage.tail_cache import TailBudget
from storage.verified_ranges import VerifiedBudget

# A block is what is dropped together: so many bytes, or so many entries if they are small.
_BLOCK_BYTES = 1024 * 1024
_BLOCK_ENTRIES = 512
# What an entry takes beside its bytes: objects of Python, and what malloc rounds up.
ENTRY_OVERHEAD_BYTES = 256


class ReadCacheBudget:
    """Bytes that the read caches of all logs of a node hold together, overhead included.

    Attributes:
        limit: Never exceeded between two calls; 0 keeps nothing.
        used: Held now.
        reads: Reads that found their first entry in one of the caches.
    """

    def __init__(self, limit: int) -> None:
        assert limit >= 0
        self.limit = limit
        self.used = self.reads = 0
        # The one that was written or read longest ago comes first.
        self._caches: dict[ReadCache, None] = {}

    def touch(self, cache: "ReadCache") -> None:
        """`cache` was written or read: the others give way first."""
        self._caches.pop(cache, None)
        self._caches[cache] = None

    def grow(self, cache: "ReadCache", size: int) -> None:
        """`cache` has taken `size` bytes; make room."""
        self.touch(cache)
        self.used += size
        while self.used > self.limit:
            next(iter(self._caches)).drop_oldest()

    def shrink(self, cache: "ReadCache", size: int) -> None:
        """`cache` has dropped `size` bytes."""
        self.used -= size
        assert self.used >= 0
        if cache.is_empty:
            self._caches.pop(cache, None)


class CacheBudgets(NamedTuple):
    """What all logs of a node share.

    Bounds of the newest entries, of what consumers read behind these, of what is read ahead of them, of what is
    remembered of the files, and of the rows of aborted transactions that were read from index files.
    """

    tail: TailBudget
    read: ReadCacheBudget
    ahead: ReadAheadBudget
    verified: VerifiedBudget
    rows: RowsBudget


class _Block:
    """A run of entries, not empty."""

    __slots__ = ("entries", "size")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.size = 0


async def free(blocks: list[_Block]) -> None:
    """Let these blocks go, one in a step of the loop."""
    while blocks:
        del blocks[-1]
        await asyncio.sleep(0)


class ReadCache:
    """A run of one log's entries without a gap, which ends where the tail cache begins."""

    def __init__(self, budget: ReadCacheBudget) -> None:
        self._budget = budget
        self._blocks: list[_Block] = []
        self._is_kept = False

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing."""
        return not self._blocks

    def keep(self, *, is_kept: bool) -> list[_Block]:
        """Take what leaves the tail cache from now on; or take nothing, and return what was here.

        The caller frees it in steps (`free`): two million entries of 160 bytes in one step take 0.16 s.
        """
        self._is_kept = is_kept
        if is_kept or not self._blocks:
            return []
        blocks, self._blocks = self._blocks, []
        self._budget.shrink(self, sum(block.size for block in blocks))
        return blocks

    def admit(self, entry: Entry) -> None:
        """The tail cache has dropped this entry."""
        size = _cost(entry)
        if not self._is_kept or size > self._budget.limit:
            return
        if self._blocks and self._blocks[-1].entries[-1].last_index + 1 != entry.index:
            # What lay between was never here: the run begins anew.
            while self._blocks:
                self.drop_oldest()
        block = self._blocks[-1] if self._blocks else None
        if block is None or block.size >= _BLOCK_BYTES or len(block.entries) >= _BLOCK_ENTRIES:
            block = _Block()
            self._blocks.append(block)
        block.entries.append(entry)
        block.size += size
        self._budget.grow(self, size)

    def drop_oldest(self) -> None:
        """Forget the oldest block."""
        block = self._blocks.pop(0)
        self._budget.shrink(self, block.size)

    def forget_until(self, last: Index) -> None:
        """Drop the entries up to `last`, and what is in a block with one of them."""
        while self._blocks and self._blocks[0].entries[0].index <= last:
            self.drop_oldest()

    def forget_some(self, last: Index) -> bool:
        """Drop the oldest block as `forget_until` does, where that drops several; False: it does not."""
        if len(self._blocks) < 2 or self._blocks[1].entries[0].index > last:
            return False
        self.drop_oldest()
        return True

    def cut(self, first_removed: Index) -> None:
        """Drop entries from `first_removed` on."""
        while self._blocks and self._blocks[-1].entries[-1].last_index >= first_removed:
            block = self._blocks[-1]
            freed = 0
            while block.entries and block.entries[-1].last_index >= first_removed:
                freed += _cost(block.entries.pop())
            block.size -= freed
            if not block.entries:
                self._blocks.pop()
            self._budget.shrink(self, freed)

    def read(self, first: Index, last: Index, max_bytes: int) -> list[Entry] | None:
        """As `TailCache.read`."""
        if not self.holds(first):
            return None
        self._budget.touch(self)
        self._budget.reads += 1
        number = bisect_right(self._blocks, first, key=_first_index) - 1
        skip = _position_of(self._blocks[number].entries, first)
        run: list[Entry] = []
        size = 0
        while number < len(self._blocks):
            entries = self._blocks[number].entries
            for entry in entries[skip:] if skip else entries:
                size += entry.size
                if entry.index > last or (run and size > max_bytes):
                    return run
                run.append(entry)
            number, skip = number + 1, 0
        return run

    def holds(self, index: Index) -> bool:
        """Whether the entry is here."""
        blocks = self._blocks
        return bool(blocks) and blocks[0].entries[0].index <= index <= blocks[-1].entries[-1].last_index

    def holds_offset(self, offset: Offset) -> bool:
        """Whether the entry that holds `offset` is here."""
        blocks = self._blocks
        return bool(blocks) and blocks[0].entries[0].base_offset <= offset < blocks[-1].entries[-1].end_offset

    def index_of_offset(self, offset: Offset) -> Index | None:
        """Return the entry that holds `offset`; None if it is before or after what is here."""
        if not self.holds_offset(offset):
            return None
        blocks = self._blocks
        # The last block that begins at or before the record: one without records is before the one that holds it.
        block = blocks[bisect_right(blocks, offset, key=_base_offset) - 1]
        return block.entries[bisect_right(block.entries, offset, key=lambda entry: entry.end_offset)].index


def _cost(entry: Entry) -> int:
    return entry.size + ENTRY_OVERHEAD_BYTES


def _position_of(entries: list[Entry], index: Index) -> int:
    """Return which of these entries, which hold it, stands for an index."""
    if entries[-1].last_index - entries[0].index < len(entries):
        return index - entries[0].index
    return bisect_right(entries, index, key=lambda entry: entry.index) - 1


def _first_index(block: _Block) -> Index:
    return block.entries[0].index


def _base_offset(block: _Block) -> Offset:
    return block.entries[0].base_offset
