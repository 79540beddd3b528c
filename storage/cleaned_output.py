"""Segments that a pass of log compaction writes, and what their index files will say (RFC 0022, section 5).

Each source is written to a file of its own. Where it fits, it is joined to the output before it; so an output always
has whole sources. Blocking; a failure leaves files that end in `.cleaned`, which a start removes.
"""

from collections.abc import Iterable, Iterator

import msgspec

from model.ids import NO_INDEX, Index, Offset, Term
from model.record_batch import CONTROL_MASK
from runtime.files import File, FileSystem
from storage.aborted_rows import AbortedRows, aborted_row
from storage.entry import Buffer, Entry, EntryKind, pack_header
from storage.placeholder import ENTRIES_MAX, OFFSETS_MAX, placeholder
from storage.segment import SegmentView, marks_of, scan, segment_name
from storage.segment_index import SegmentIndex, TermStart

CLEANED_SUFFIX = ".cleaned"
_WRITE_BYTES = 1024 * 1024


class CleanedSegment(msgspec.Struct, frozen=True):
    """An output: a segment that stands for its sources, durable under a name that is not in the log yet.

    Attributes:
        path: Its file, which ends in `.cleaned`.
        first_source, last_source: The paths of the sources that it stands for, in order.
        base_index, base_offset, term: Of its first entry.
        last_index, end_offset: Of its last entry, and behind it.
        size: Bytes of whole entries: all of the file.
        data_term: The term of the data in it, 0 without data.
        delete_bytes: Of the tombstones and markers in it.
        max_timestamp: Of its batches, -1 without any.
        created_ms, closed_ms: Of the first source and of the last one.
        terms: Where terms begin in it, its first entry first.
        columns, rows: As in its index file.
    """

    path: str
    first_source: str
    last_source: str
    base_index: Index
    base_offset: Offset
    term: Term
    last_index: Index
    end_offset: Offset
    size: int
    data_term: int
    delete_bytes: int
    max_timestamp: int
    created_ms: int
    closed_ms: int
    terms: list[TermStart]
    columns: tuple[bytes, bytes, bytes, bytes]
    rows: tuple[bytes, bytes, bytes]


class CleanedOutput:
    """The output that is being written, or what is to be joined to it.

    Args:
        files: The seam.
        directory: Of the replica.
        source: The path of the segment that it stands for.
        created_ms, closed_ms: Of that segment.
        interval: Of the sparse index.
    """

    def __init__(
        self, files: FileSystem, directory: str, source: str, created_ms: int, closed_ms: int, interval: int
    ) -> None:
        self._files = files
        self._directory = directory
        self._file: File | None = None
        self._path = ""
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        # Removed entries for which a placeholder is due.
        self._removed: _Removed | None = None
        self._index = SegmentIndex(interval)
        self._rows = AbortedRows()
        self._terms: list[TermStart] = []
        self._last_index, self._end_offset = NO_INDEX, Offset(0)
        self._first_source = self.last_source = source
        self._created_ms, self.closed_ms = created_ms, closed_ms
        self.data_term = 0
        self.delete_bytes = 0
        self.size = 0

    def write(self, entries: Iterable[tuple[Entry, int, bool]]) -> None:
        """Write the entries of its source: each with its flushed mark, and whether it stays."""
        for entry, flushed, stays in entries:
            if stays:
                self._end_placeholder()
                self._add(entry, flushed)
            elif self._removed is None or not self._removed.take(entry):
                self._end_placeholder()
                self._removed = _Removed(entry, flushed)
        self._end_placeholder()
        self._write()

    def _end_placeholder(self) -> None:
        removed, self._removed = self._removed, None
        if removed is not None:
            self._add(removed.placeholder(), removed.flushed)

    def _add(self, entry: Entry, flushed: int) -> None:
        attributes, latest = marks_of(entry)
        if not self._terms or entry.term > self._terms[-1].term:
            self._terms.append(TermStart(entry.index, entry.term, entry.base_offset))
        self._index.add(entry.index, entry.base_offset, entry.record_count, latest, self.size)
        if entry.kind is EntryKind.DATA:
            self.data_term = int(entry.term)
        row = aborted_row(entry) if attributes & CONTROL_MASK else None
        if row is not None:
            self._rows.add(row)
        self._last_index, self._end_offset = entry.last_index, entry.end_offset
        self._pending += (pack_header(entry, Index(flushed)), entry.payload)
        self._pending_bytes += entry.size
        self.size += entry.size
        if self._pending_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            first = self._terms[0]
            self._path = f"{self._directory}/{segment_name(first.first_index, first.term)}{CLEANED_SUFFIX}"
            if self._files.exists(self._path):
                self._files.unlink(self._path)
            self._file = self._files.open(self._path, create=True)
        self._file.pwritev(self._pending, self.size - self._pending_bytes)
        self._pending, self._pending_bytes = [], 0

    def may_join(self, other: "CleanedOutput", segment_bytes: int) -> bool:
        """Whether `other`, which follows, may be joined: a segment has data of one term, and a bound."""
        of_one_term = 0 in (self.data_term, other.data_term) or self.data_term == other.data_term
        return of_one_term and self.size + other.size <= segment_bytes

    def join(self, other: "CleanedOutput") -> None:
        """Take in what follows; its file goes."""
        for entry, flushed in other.entries():
            self._add(entry, flushed)
        self._write()
        self.last_source, self.closed_ms = other.last_source, other.closed_ms
        self.delete_bytes += other.delete_bytes
        other.discard()

    def entries(self) -> Iterator[tuple[Entry, int]]:
        """Yield what was written, with the flushed marks."""
        assert self._file is not None
        for _, parsed in scan(SegmentView(self._path, self._file, 0, self.size)):
            yield parsed.entry, parsed.flushed

    def end(self) -> CleanedSegment:
        """Make it durable, and return it."""
        assert self._file is not None
        self._file.fsync()
        self._file.close()
        first = self._terms[0]
        return CleanedSegment(
            path=self._path,
            first_source=self._first_source,
            last_source=self.last_source,
            base_index=first.first_index,
            base_offset=first.base_offset,
            term=first.term,
            last_index=self._last_index,
            end_offset=self._end_offset,
            size=self.size,
            data_term=self.data_term,
            delete_bytes=self.delete_bytes,
            max_timestamp=self._index.max_timestamp,
            created_ms=self._created_ms,
            closed_ms=self.closed_ms,
            terms=self._terms,
            columns=self._index.columns(),
            rows=self._rows.columns(),
        )

    def discard(self) -> None:
        """Close and remove its file."""
        if self._file is not None:
            self._file.close()
            self._files.unlink(self._path)


class _Removed:
    """Neighbours of one term that go: a placeholder will stand for them."""

    def __init__(self, entry: Entry, flushed: int) -> None:
        self._first = entry
        # Told of what lies before the first one only: that is true of all of them.
        self.flushed = flushed
        self._last_index, self._end_offset = entry.last_index, entry.end_offset

    def take(self, entry: Entry) -> bool:
        """Stand for the next entry, too; False if it cannot."""
        first = self._first
        if entry.term != first.term or entry.last_index - first.index >= ENTRIES_MAX:
            return False
        if entry.end_offset - first.base_offset > OFFSETS_MAX:
            return False
        self._last_index, self._end_offset = entry.last_index, entry.end_offset
        return True

    def placeholder(self) -> Entry:
        first = self._first
        return placeholder(first.index, self._last_index, first.term, first.base_offset, self._end_offset)
