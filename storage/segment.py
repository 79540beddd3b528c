"""One segment file: entries back to back, named `<base index>-<term>.log`, with a sparse index in memory.

Reading functions block and run on workers; they see a segment as a `SegmentView` that was taken on the loop, so a
roll or a truncation meanwhile cannot pull the ground from under them (the caller checks the log's generation after).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from model.ids import Index, Offset, Term
from runtime.files import File
from storage.entry import Entry, EntryKind, ParsedEntry, parse_entry
from storage.errors import CorruptEntryError, CorruptLogError, UnknownFormatError
from storage.segment_index import SegmentIndex

_NAME = re.compile(r"(\d{20})-(\d+)\.log")
_MAX_TIMESTAMP_POSITION = slice(35, 43)
_SCAN_CHUNK_BYTES = 1024 * 1024

# A lookup ends within one row of the sparse index, usually.
LOOKUP_CHUNK_BYTES = 64 * 1024


def segment_name(base_index: int, term: int) -> str:
    """Return the file name of a segment."""
    return f"{base_index:020d}-{term}.log"


def parse_segment_name(name: str) -> tuple[Index, Term] | None:
    """Return base index and term, None if the name is not a segment's."""
    match = _NAME.fullmatch(name)
    return (Index(int(match[1])), Term(int(match[2]))) if match else None


def max_timestamp_of(entry: Entry) -> int:
    """Return the largest timestamp in a data entry's batch; -1 for other kinds."""
    if entry.kind is not EntryKind.DATA:
        return -1
    return int.from_bytes(memoryview(entry.payload)[_MAX_TIMESTAMP_POSITION], "big", signed=True)


class SegmentView(NamedTuple):
    """What a worker reads: bytes [position, end) of one file."""

    path: str
    file: File
    position: int
    end: int


class SegmentFacts(NamedTuple):
    """What retention is told of a segment; `max_timestamp` is -1 without data, `closed_ms` None while it is active."""

    base_index: Index
    base_offset: Offset
    last_index: Index
    size: int
    max_timestamp: int
    closed_ms: int | None


@dataclass(slots=True, eq=False)
class Segment:
    """One file of the log. Invariant: base_index - 1 <= last_index; `size` counts whole entries only.

    Attributes:
        created_ms: When its first entry was written, by the wall clock; after a restart an estimate (RFC 0002, 2).
        closed_ms: When the next segment began, by the wall clock; after a restart perhaps later. None while active.
        data_term: The term of the data in it, 0 if there is none; a segment holds data of one term only.
        has_index_file: Its facts came from its index file.
    """

    path: str
    base_index: Index
    base_offset: Offset
    term: Term
    file: File
    index: SegmentIndex
    created_ms: int
    last_index: Index
    size: int = 0
    data_term: int = 0
    has_index_file: bool = False
    closed_ms: int | None = None

    @property
    def name(self) -> str:
        """Its file's name."""
        return self.path.rpartition("/")[2]

    def note(self, entry: Entry) -> None:
        """An entry was written at the end."""
        assert entry.index == self.last_index + 1
        self.index.note(entry.index, entry.base_offset, max_timestamp_of(entry), self.size)
        self.size += entry.size
        self.last_index = entry.index
        if entry.kind is EntryKind.DATA:
            self.data_term = int(entry.term)

    def cut(self, cut: "Cut") -> None:
        """Forget what lies at and behind `cut`; the file is cut by others."""
        self.index.cut(cut.position, cut.max_timestamp)
        self.size, self.last_index = cut.position, Index(cut.first_removed - 1)
        if cut.base_offset == self.base_offset:
            self.data_term = 0

    def view(self, position: int = 0) -> SegmentView:
        """Return the written bytes from `position` on."""
        return SegmentView(self.path, self.file, position, self.size)

    def facts(self) -> SegmentFacts:
        """Return what retention is told of it."""
        latest = self.index.max_timestamp
        return SegmentFacts(self.base_index, self.base_offset, self.last_index, self.size, latest, self.closed_ms)


class Cut(NamedTuple):
    """Where a truncation cuts a segment: the first entry that goes, and the largest timestamp of what stays."""

    first_removed: Index
    position: int
    base_offset: Offset
    max_timestamp: int


def scan(view: SegmentView, chunk: int = _SCAN_CHUNK_BYTES) -> Iterator[tuple[int, ParsedEntry]]:
    """Yield (position, entry) for the entries of `view`; ends early where the bytes end within an entry.

    Raises:
        CorruptLogError: Bytes that are no entry, or a wrong checksum; the message names file and position.
        UnknownFormatError: A newer version wrote them.
    """
    start = position = view.position
    buffer = memoryview(b"")
    while position < view.end:
        try:
            parsed = parse_entry(buffer, position - start)
        except UnknownFormatError as error:
            raise UnknownFormatError(f"{view.path}, byte {position}: {error}") from error
        except CorruptEntryError as error:
            raise CorruptLogError(f"{view.path} is damaged at byte {position}: {error}", view.path) from error
        if parsed is None:
            have = start + len(buffer) - position
            if have >= view.end - position:
                return
            wanted = min(view.end - position, max(chunk, 2 * have))
            start, buffer = position, memoryview(view.file.pread(wanted, position))
            if len(buffer) < wanted:
                raise CorruptLogError(f"{view.path} is shorter than it was: {start + len(buffer)} bytes", view.path)
            continue
        yield position, parsed
        position += parsed.entry.size


def read_run(views: list[SegmentView], first: Index, last: Index, max_bytes: int) -> list[Entry]:
    """Return the entries [first, last] until `max_bytes` would be exceeded or damage follows, at least one.

    Raises:
        CorruptLogError: Entry `first` is damaged, not there, or not reached because of damage before it.
    """
    entries: list[Entry] = []
    try:
        for entry in _run(views, first, last, min(max_bytes + LOOKUP_CHUNK_BYTES, 4 * _SCAN_CHUNK_BYTES)):
            if entries and entry.size > max_bytes:
                break
            entries.append(entry)
            max_bytes -= entry.size
    except CorruptLogError:
        # Whoever asks for the damaged entry is told; what lies before it is good.
        if not entries:
            raise
    if not entries:
        path = views[0].path if views else None
        raise CorruptLogError(f"{path or 'no segment'}: entry {first} is not where it should be", path)
    return entries


def _run(views: list[SegmentView], first: Index, last: Index, chunk: int) -> Iterator[Entry]:
    due = first
    for view in views:
        for _, parsed in scan(view, chunk):
            if parsed.entry.index < first:
                continue
            if parsed.entry.index != due:
                raise CorruptLogError(f"{view.path}: entry {parsed.entry.index} where {due} should be", view.path)
            yield parsed.entry
            if due == last:
                return
            due = Index(due + 1)


def find_cut(view: SegmentView, first_removed: Index, max_timestamp: int) -> Cut:
    """Find the entry `first_removed`; `max_timestamp` is the largest before the view's position.

    Raises:
        CorruptLogError: Damage, or the entry is not there.
    """
    for position, parsed in scan(view, LOOKUP_CHUNK_BYTES):
        if parsed.entry.index == first_removed:
            return Cut(first_removed, position, parsed.entry.base_offset, max_timestamp)
        max_timestamp = max(max_timestamp, max_timestamp_of(parsed.entry))
    raise CorruptLogError(f"{view.path}: entry {first_removed} is not where it should be", view.path)
