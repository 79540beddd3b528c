"""The sparse index of one segment: from an index, an offset or a timestamp to a byte position at or before it.

A closed segment's index lies beside it as `.index`, so that a restart need not scan the segment. The file is only an
accelerator: missing, damaged or of another segment, it is built again by a scan.
"""

from array import array
from bisect import bisect_left, bisect_right

import crc32c
import msgspec

from model.ids import Index, Offset, Term

FORMAT_VERSION = 1
_NO_TIMESTAMP = -1


class IndexRecord(msgspec.Struct, frozen=True, array_like=True):
    """The content of an `.index` file. `terms` are (first index, term, base offset) of each term in the segment."""

    format_version: int
    base_index: int
    size: int
    last_index: int
    end_offset: int
    max_timestamp: int
    flushed_mark: int
    terms: list[tuple[int, int, int]]
    indexes: bytes
    offsets: bytes
    timestamps: bytes
    positions: bytes


class SegmentIndex:
    """Parallel columns, one row per indexed entry, ascending; `timestamps` is the largest *before* that entry."""

    __slots__ = ("_indexes", "_interval", "_next_at", "_offsets", "_positions", "_timestamps", "max_timestamp")

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._next_at = 0
        self._indexes = array("q")
        self._offsets = array("q")
        self._timestamps = array("q")
        self._positions = array("q")
        self.max_timestamp = _NO_TIMESTAMP

    def note(self, index: int, offset: int, timestamp: int, position: int) -> None:
        """An entry was written at `position`; keep a row for it if the last one is far enough behind."""
        if position >= self._next_at:
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

    def columns(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Return the columns' bytes for `IndexRecord`."""
        return (
            self._indexes.tobytes(),
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._positions.tobytes(),
        )

    @classmethod
    def from_record(cls, record: IndexRecord, interval: int) -> "SegmentIndex":
        """Build the index of a closed segment again from its file."""
        index = cls(interval)
        index._indexes.frombytes(record.indexes)
        index._offsets.frombytes(record.offsets)
        index._timestamps.frombytes(record.timestamps)
        index._positions.frombytes(record.positions)
        index.max_timestamp = record.max_timestamp
        index._next_at = record.size
        return index

    def _at(self, row: int) -> int:
        return self._positions[row] if 0 <= row < len(self._positions) else 0


class TermStart(msgspec.Struct, frozen=True):
    """Where a term begins in the log."""

    first_index: Index
    term: Term
    base_offset: Offset


def encode_index(record: IndexRecord) -> bytes:
    """Return the bytes of an `.index` file: CRC32C, then msgpack."""
    body = msgspec.msgpack.encode(record)
    return crc32c.crc32c(body).to_bytes(4, "big") + body


def decode_index(content: bytes, base_index: int, size: int) -> IndexRecord | None:
    """Read an `.index` file; None if it is damaged or belongs to another segment or format."""
    if len(content) < 4 or crc32c.crc32c(content[4:]) != int.from_bytes(content[:4], "big"):
        return None
    try:
        record = msgspec.msgpack.decode(content[4:], type=IndexRecord)
    except msgspec.MsgspecError:
        return None
    columns = (record.indexes, record.offsets, record.timestamps, record.positions)
    fits = record.format_version == FORMAT_VERSION and record.base_index == base_index and record.size == size
    if not fits or len({len(column) for column in columns}) != 1 or len(record.indexes) % 8:
        return None
    return record
