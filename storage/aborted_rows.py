"""Rows of aborted transactions: for each ABORT marker whose transaction it ends, and where that began (RFC 0021, 6).

A segment has the rows of the markers in it: in memory, until its index file has them. A reader needs those of all
transactions that have records in what it reads: they began before its end, and their markers lie at or behind its
beginning.
"""

from array import array
from bisect import bisect_left
from typing import NamedTuple

from model.control_batch import decode_marker
from model.ids import Offset
from storage.entry import Entry

# The smallest first offset of a segment without rows: no reader's end is above it.
NO_ROWS = 2**63 - 1
# So many rows are passed over in one step where all of their transactions began too late.
_BLOCK_ROWS = 256
_ROW_BYTES = 24
# The objects of one segment's rows, beside their columns.
_OVERHEAD_BYTES = 1024


class AbortedRow(NamedTuple):
    """One aborted transaction in this partition: the offsets of its first record and of the marker that ends it."""

    producer_id: int
    first_offset: Offset
    marker_offset: Offset


def aborted_row(entry: Entry) -> AbortedRow | None:
    """Return the row of an entry that holds a control batch; None if the batch is no ABORT marker.

    A control batch that is no marker of this log has none either: what it means is judged where entries are applied.
    """
    try:
        marker = decode_marker(entry.payload)
    except ValueError:
        return None
    if not marker.is_abort or not 0 <= marker.first_offset <= entry.base_offset:
        return None
    return AbortedRow(marker.producer_id, Offset(marker.first_offset), entry.base_offset)


class AbortedRows:
    """The rows of one segment, in the order of their markers: parallel columns."""

    __slots__ = ("_firsts", "_lowest", "_markers", "_producers")

    def __init__(self) -> None:
        self._producers = array("q")
        self._firsts = array("q")
        self._markers = array("q")
        # Of each block of rows the smallest first offset.
        self._lowest = array("q")

    def __len__(self) -> int:
        return len(self._markers)

    @property
    def lowest(self) -> int:
        """The smallest first offset of all of them; NO_ROWS if there are none."""
        return min(self._lowest, default=NO_ROWS)

    @property
    def size_bytes(self) -> int:
        """What they take in memory, about."""
        return _OVERHEAD_BYTES + _ROW_BYTES * len(self)

    def add(self, row: AbortedRow) -> None:
        """The marker of `row` was written behind the markers of all others."""
        assert not self._markers or self._markers[-1] <= row.marker_offset
        if len(self) % _BLOCK_ROWS == 0:
            self._lowest.append(row.first_offset)
        elif row.first_offset < self._lowest[-1]:
            self._lowest[-1] = row.first_offset
        self._producers.append(row.producer_id)
        self._firsts.append(row.first_offset)
        self._markers.append(row.marker_offset)

    def cut(self, offset: Offset) -> None:
        """Forget those whose markers lie at or behind `offset`."""
        keep = bisect_left(self._markers, offset)
        for column in (self._producers, self._firsts, self._markers):
            del column[keep:]
        self._lowest = _lowest_of_blocks(self._firsts)

    def within(self, begin: Offset, end: Offset) -> list[AbortedRow]:
        """Return those of transactions that began before `end` and have their markers at or behind `begin`."""
        found: list[AbortedRow] = []
        row, count = bisect_left(self._markers, begin), len(self)
        while row < count:
            block = row // _BLOCK_ROWS
            following = min(count, (block + 1) * _BLOCK_ROWS)
            if self._lowest[block] < end:
                found += (self._row(at) for at in range(row, following) if self._firsts[at] < end)
            row = following
        return found

    def columns(self) -> tuple[bytes, bytes, bytes]:
        """Return the bytes of producer ids, first offsets and marker offsets, for the index file."""
        return self._producers.tobytes(), self._firsts.tobytes(), self._markers.tobytes()

    @classmethod
    def from_columns(cls, columns: tuple[bytes, bytes, bytes]) -> "AbortedRows":
        """Build the rows of a segment again from its index file; the columns are of one size, in whole numbers."""
        rows = cls()
        for column, content in zip((rows._producers, rows._firsts, rows._markers), columns, strict=True):
            column.frombytes(content)
        rows._lowest = _lowest_of_blocks(rows._firsts)
        return rows

    def _row(self, at: int) -> AbortedRow:
        return AbortedRow(self._producers[at], Offset(self._firsts[at]), Offset(self._markers[at]))


def _lowest_of_blocks(firsts: "array[int]") -> "array[int]":
    return array("q", (min(firsts[at : at + _BLOCK_ROWS]) for at in range(0, len(firsts), _BLOCK_ROWS)))
