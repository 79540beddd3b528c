"""The sparse index of one segment: from an index, an offset or a timestamp to a byte position at or before it.

In memory; `index_file` keeps that of a closed segment on disk.
"""

from array import array
from bisect import bisect_left, bisect_right

import msgspec

from model.ids import Index, Offset, Term

_NO_TIMESTAMP = -1


class SegmentIndex:
    """Parallel columns, one row per indexed entry with records; `timestamps` is the largest *before* that entry."""

    __slots__ = ("_indexes", "_interval", "_next_at", "_offsets", "_positions", "_timestamps", "max_timestamp")

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._next_at = 0
        self._indexes = array("q")
        self._offsets = array("q")
        self._timestamps = array("q")
        self._positions = array("q")
        self.max_timestamp = _NO_TIMESTAMP

    def add(self, index: int, offset: int, record_count: int, timestamp: int, position: int) -> None:
        """An entry was written at `position`; keep a row for it if it has records and the last one is far behind."""
        if record_count and position >= self._next_at:
            self._indexes.append(index)
            self._offsets.append(offset)
            self._timestamps.append(self.max_timestamp)
            self._positions.append(position)
            self._next_at = position + self._interval
        self.max_timestamp = max(self.max_timestamp, timestamp)

    def position_of_index(self, index: int) -> int:
        """Return where to start reading for an index in the segment."""
        return self._at(bisect_right(self._indexes, index) - 1)

    def position_of_offset(self, offset: int) -> int:
        """Return where to start reading for the entry that holds `offset`."""
        return self._at(bisect_right(self._offsets, offset) - 1)

    def index_at(self, offset: int) -> int | None:
        """Return the index of the entry that begins with the record at `offset`; None where no row tells."""
        row = bisect_right(self._offsets, offset) - 1
        return self._indexes[row] if row >= 0 and self._offsets[row] == offset else None

    def position_of_timestamp(self, timestamp: int) -> int:
        """Return where to start reading for the first entry at or after `timestamp`."""
        # A row says how late everything before it was: the last row before which nothing was late enough.
        return self._at(bisect_left(self._timestamps, timestamp) - 1)

    def cut(self, position: int, max_timestamp: int) -> None:
        """Forget entries at and behind `position`; `max_timestamp` is that of what remains."""
        keep = bisect_left(self._positions, position)
        for column in (self._indexes, self._offsets, self._timestamps, self._positions):
            del column[keep:]
        self._next_at = self._positions[-1] + self._interval if keep else 0
        self.max_timestamp = max_timestamp

    def max_timestamp_before(self, index: int) -> tuple[int, int]:
        """Return (position, the largest timestamp before it): where to begin to find out up to `index`."""
        row = bisect_right(self._indexes, index) - 1
        return (self._positions[row], self._timestamps[row]) if row >= 0 else (0, _NO_TIMESTAMP)

    def columns(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Return the bytes of indexes, offsets, timestamps and positions, for the index file."""
        return (
            self._indexes.tobytes(),
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._positions.tobytes(),
        )

    @classmethod
    def from_columns(
        cls, columns: tuple[bytes, bytes, bytes, bytes], size: int, max_timestamp: int, interval: int
    ) -> "SegmentIndex":
        """Build the index of a segment of `size` bytes again from its index file."""
        index = cls(interval)
        for column, content in zip(
            (index._indexes, index._offsets, index._timestamps, index._positions), columns, strict=True
        ):
            column.frombytes(content)
        index.max_timestamp = max_timestamp
        index._next_at = index._positions[-1] + interval if index._positions else size
        return index

    def _at(self, row: int) -> int:
        return self._positions[row] if 0 <= row < len(self._positions) else 0


class TermStart(msgspec.Struct, frozen=True, array_like=True):
    """Where a term begins in the log."""

    first_index: Index
    term: Term
    base_offset: Offset
