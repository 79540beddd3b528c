"""The segments of one log: which there are, which hold bytes without an fsync, which still lack their index file.

Nothing here awaits, and the steps are the only ones that change any of the three. So a segment that leaves the log is
in none of them from the same step on, and its name is given up in it (RFC 0002, 12).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from model.ids import NO_INDEX, Index, Offset
from storage.aborted_rows import NO_ROWS, AbortedRows
from storage.rows_budget import RowsBudget
from storage.segment import Cut, Segment, SegmentFacts


class LogSegments(Sequence[Segment]):
    """In order, oldest first; the last one is active, all others are closed. Invariants:

    * Each segment begins with the entry after the last one of the segment before it.
    * What is dirty is in the log, and its file is pinned: once for being dirty, once more for each fsync that took it.
    * What is due is closed and in the log, in its order.
    * Rows of aborted transactions: the active one's are in memory, and a closed one's until its index file has them.
      What memory keeps beside, as far as the node's budget goes, is of closed ones that are in the log.
    """

    def __init__(self, segments: list[Segment], rows: RowsBudget) -> None:
        self._segments = segments
        self._rows = rows
        self._dirty: list[Segment] = []
        self._due = [segment for segment in segments[:-1] if not segment.has_index_file]
        # At most the smallest first offset of the rows of the closed ones. It is not raised when one of them leaves.
        self._lowest_first = min((segment.lowest_first for segment in segments[:-1]), default=NO_ROWS)

    @overload
    def __getitem__(self, at: int) -> Segment: ...

    @overload
    def __getitem__(self, at: slice) -> list[Segment]: ...

    def __getitem__(self, at: int | slice) -> Segment | list[Segment]:
        return self._segments[at]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    # -- which there are ------------------------------------------------------------------------------------------

    @property
    def active(self) -> Segment | None:
        """The one that is written to; None in a log without an entry."""
        return self._segments[-1] if self._segments else None

    @property
    def size_bytes(self) -> int:
        """Bytes of all of them."""
        return sum(segment.size for segment in self._segments)

    @property
    def closed_index(self) -> Index:
        """The last index of the newest closed one, 0 if there is none."""
        return self._segments[-2].last_index if len(self._segments) > 1 else NO_INDEX

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp in the newest one that holds a batch; -1 if none does."""
        largest = (segment.index.max_timestamp for segment in reversed(self._segments))
        return next((each for each in largest if each >= 0), -1)

    def facts(self, first: Index) -> list[SegmentFacts]:
        """Return what retention is told of those that hold entries from `first` on."""
        return [segment.facts() for segment in self._segments if segment.last_index >= first]

    def holding(self, first: Index) -> list[Segment]:
        """Return those that hold entries from `first` on; `first` is in the log."""
        at = bisect_right(self._segments, first, key=lambda segment: segment.base_index) - 1
        # Section 2: the log is its segments, one after the other, and the first of them holds its start.
        assert at >= 0
        return self._segments[at:]

    def of_offset(self, offset: Offset) -> Segment:
        """Return the one that holds the record at `offset`, which is in the log."""
        # Of several segments that begin at one offset only the last can hold records of it.
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        return self._segments[max(at, 0)]

    def after(self, closed: Segment) -> Segment:
        """Return the one that follows a closed one."""
        return self._segments[self._segments.index(closed) + 1]

    def split(self, first_removed: Index) -> tuple[Segment | None, list[Segment]]:
        """Return the last one that stays without the entries from `first_removed` on, and those that go."""
        kept = sum(segment.base_index < first_removed for segment in self._segments)
        return (self._segments[kept - 1] if kept else None), self._segments[kept:]

    # -- steps ----------------------------------------------------------------------------------------------------

    def begin(self, segment: Segment) -> None:
        """A new one is active; the one before it is closed, and its index file due."""
        segment.file.set_active(True)
        if self._segments:
            closed = self._segments[-1]
            assert segment.base_index == closed.last_index + 1
            closed.closed_ms = segment.created_ms
            closed.file.set_active(False)
            self._due.append(closed)
            self._lowest_first = min(self._lowest_first, closed.lowest_first)
        self._segments.append(segment)

    def cut_end(
        self, first_removed: Index, cut: Cut | None, rows: AbortedRows | None
    ) -> tuple[Segment | None, list[Segment]]:
        """Take out what goes by `split`; the last one that stays is active, and cut at `cut` if there is one.

        `rows` are all rows that the last one had before, None without any.
        """
        last, removed = self.split(first_removed)
        if last is not None:
            last.reopen(rows)
            self._rows.forget(last)
            if cut is not None:
                last.cut(cut)
        del self._segments[len(self._segments) - len(removed) :]
        self._leave(removed)
        assert last is None or last.last_index == first_removed - 1
        return last, removed

    def replace(self, sources: list[Segment], cleaned: Segment) -> None:
        """Put a cleaned one in the place of closed ones, neighbours whose entries it stands for; its index is due."""
        at = self._segments.index(sources[0])
        assert self._segments[at : at + len(sources)] == sources
        assert at + len(sources) < len(self._segments)
        assert (sources[0].base_index, sources[-1].last_index) == (cleaned.base_index, cleaned.last_index)
        assert not any(segment in self._dirty for segment in sources)
        was_due = {id(segment) for segment in [*self._due, cleaned]}
        self._segments[at : at + len(sources)] = [cleaned]
        self._lowest_first = min(self._lowest_first, cleaned.lowest_first)
        self._leave(sources)
        self._due = [segment for segment in self._segments[:-1] if id(segment) in was_due]

    def remove_below(self, start: Index) -> list[Segment]:
        """Take out, and return, those wholly below the entry at which the log starts."""
        first = sum(segment.base_index <= start for segment in self._segments[1:])
        removed = self._segments[:first]
        del self._segments[:first]
        self._leave(removed)
        assert not removed or removed[-1].last_index < start
        return removed

    def remove_all(self) -> list[Segment]:
        """Take out, and return, all of them."""
        removed = self._segments[:]
        self._segments.clear()
        self._leave(removed)
        return removed

    def _leave(self, removed: list[Segment]) -> None:
        """They were taken out; what is left may be active again."""
        for segment in removed:
            segment.file.give_up_name()
            self._rows.forget(segment)
        closed = self._segments[:-1]
        self._due = [segment for segment in self._due if segment in closed]
        left = [segment for segment in self._dirty if segment not in self._segments]
        self._dirty = [segment for segment in self._dirty if segment in self._segments]
        _unpin_all(left)

    def close(self) -> None:
        """The log ends: nothing is flushed any more, and all files are closed."""
        _unpin_all(self._dirty)
        for segment in self._segments:
            segment.file.close()
            self._rows.forget(segment)
        for each in (self._segments, self._dirty, self._due):
            each.clear()

    # -- what is dirty --------------------------------------------------------------------------------------------

    def mark_dirty(self, segment: Segment) -> None:
        """A segment, which is open, holds bytes that no fsync has covered: it stays open until one has."""
        if segment not in self._dirty:
            segment.file.pin()
            self._dirty.append(segment)

    def take_dirty(self) -> list[Segment]:
        """Return what an fsync that begins now has to cover; what is written from here on is for the next."""
        taken, self._dirty = self._dirty, []
        return taken

    def on_fsync_ended(self, taken: list[Segment]) -> None:
        """The fsync for which they were taken has covered them, or nothing in this log will be flushed any more."""
        _unpin_all(taken)

    def on_fsync_crossed(self, taken: list[Segment]) -> None:
        """It crossed a truncation and proves nothing: those that are still in the log are dirty, as they were."""
        again = [segment for segment in taken if segment in self._segments and segment not in self._dirty]
        self._dirty[:0] = again
        _unpin_all([segment for segment in taken if segment not in again])

    # -- whose index file is due ------------------------------------------------------------------------------------

    def next_due(self, flushed_index: Index) -> Segment | None:
        """Return the oldest closed one that still lacks its index file, if it is durable to its end."""
        first = self._due[0] if self._due else None
        return first if first is not None and first.last_index <= flushed_index else None

    def on_index_begun(self, segment: Segment) -> None:
        """The index file of `next_due` is being written; where that fails, nobody tries again before a restart."""
        assert segment is self._due[0]
        del self._due[0]

    def on_index_written(self, segment: Segment) -> None:
        """The index file has the rows of a closed one, which is in the log: memory need not hold them any more."""
        assert segment.closed_ms is not None
        rows, segment.rows = segment.rows, None
        if rows is not None:
            self._rows.put(segment, rows)

    # -- rows of aborted transactions -------------------------------------------------------------------------------

    def rows_of(self, segment: Segment) -> AbortedRows | None:
        """Return the rows of one that has some, as far as memory goes; None: they are in its index file."""
        return segment.rows if segment.rows is not None else self._rows.get(segment)

    def may_have_rows_before(self, end: Offset) -> bool:
        """Return whether a transaction that began before `end` may have been aborted; False is certain."""
        return self._lowest_first < end or (bool(self._segments) and self._segments[-1].lowest_first < end)

    def keep_rows(self, segment: Segment, rows: AbortedRows) -> None:
        """These were read from the files for a closed one; it may have left the log meanwhile, or be active again."""
        if segment in self._segments and segment.rows is None and segment.closed_ms is not None:
            self._rows.put(segment, rows)


def _unpin_all(segments: list[Segment]) -> None:
    for segment in segments:
        segment.file.unpin()
