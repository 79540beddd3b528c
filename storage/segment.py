"""One segment file: entries back to back, named `<base index>-<term>.log`, with a sparse index in memory.

Reading functions block and run on workers; they see a segment as a `SegmentView` that was taken on the loop, so a
roll or a truncation meanwhile cannot pull the ground from under them (the caller checks the log's generation after).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from model.ids import NO_INDEX, Index, Offset, Term
from model.record_batch import CONTROL_MASK, MAX_TIMESTAMP_BYTES, unpack_attributes_and_timestamp
from model.record_batch import HEADER_BYTES as BATCH_HEADER_BYTES
from runtime.files import File
from runtime.open_files import CachedFile
from storage.aborted_rows import NO_ROWS, AbortedRows, aborted_row
from storage.entry import HEADER_BYTES, Entry, EntryHead, EntryKind, ParsedEntry, parse_entry, parse_head
from storage.errors import CorruptEntryError, CorruptLogError, UnknownFormatError
from storage.index_file import CleanedTime
from storage.segment_index import SegmentIndex

T = TypeVar("T")

_NAME = re.compile(r"(\d{20})-(\d+)\.log")
_SCAN_CHUNK_BYTES = 1024 * 1024

# A lookup ends within one row of the sparse index, usually.
LOOKUP_CHUNK_BYTES = 64 * 1024
_HEADS_CHUNK_BYTES = 4 * 1024


def segment_name(base_index: int, term: int) -> str:
    """Return the file name of a segment."""
    return f"{base_index:020d}-{term}.log"


def parse_segment_name(name: str) -> tuple[Index, Term] | None:
    """Return base index and term, None if the name is not a segment's."""
    match = _NAME.fullmatch(name)
    return (Index(int(match[1])), Term(int(match[2]))) if match else None


def marks_of(entry: Entry) -> tuple[int, int]:
    """Return the attributes of a data entry's batch and the largest timestamp in it; (0, -1) for other kinds."""
    if entry.kind is not EntryKind.DATA:
        return 0, -1
    payload = entry.payload
    if len(payload) >= BATCH_HEADER_BYTES:
        attributes, latest = unpack_attributes_and_timestamp(payload)
        return attributes, latest
    # No batch that was checked is so short; nothing but its checksum is known to be right.
    return 0, int.from_bytes(memoryview(payload)[MAX_TIMESTAMP_BYTES], "big", signed=True)


def max_timestamp_of(entry: Entry) -> int:
    """Return the largest timestamp in a data entry's batch; -1 for other kinds."""
    return marks_of(entry)[1]


def is_control(entry: Entry) -> bool:
    """Whether an entry holds a control batch: a transaction marker."""
    return bool(marks_of(entry)[0] & CONTROL_MASK)


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
        rows: Those of the ABORT markers in it; None if there are none, or if only its index file has them.
        lowest_first: The smallest first offset of its rows, wherever they are; NO_ROWS if there are none.
        cleaned_to: The end of the pass of log compaction that has written it (RFC 0022); NO_INDEX: none has.
        cleaned_times: When its entries were cleaned first.
        delete_bytes: Of the tombstones and markers that the pass has left.
    """

    path: str
    base_index: Index
    base_offset: Offset
    term: Term
    file: CachedFile
    index: SegmentIndex
    created_ms: int
    last_index: Index
    size: int = 0
    data_term: int = 0
    has_index_file: bool = False
    closed_ms: int | None = None
    rows: AbortedRows | None = None
    lowest_first: int = NO_ROWS
    cleaned_to: Index = NO_INDEX
    cleaned_times: list[CleanedTime] = field(default_factory=list)
    delete_bytes: int = 0

    @property
    def name(self) -> str:
        """Its file's name."""
        return self.path.rpartition("/")[2]

    @property
    def has_rows(self) -> bool:
        """Whether an ABORT marker is in it."""
        return self.lowest_first != NO_ROWS

    def add(self, entry: Entry) -> None:
        """An entry was written at the end."""
        assert entry.index == self.last_index + 1
        attributes, latest = marks_of(entry)
        self.index.add(entry.index, entry.base_offset, entry.record_count, latest, self.size)
        self.size += entry.size
        self.last_index = entry.last_index
        if entry.kind is EntryKind.DATA:
            self.data_term = int(entry.term)
        if attributes & CONTROL_MASK:
            self._note_marker(entry)

    def _note_marker(self, entry: Entry) -> None:
        row = aborted_row(entry)
        if row is not None:
            if self.rows is None:
                # The others would be lost from sight.
                assert not self.has_rows
                self.rows = AbortedRows()
            self.rows.add(row)
            self.lowest_first = min(self.lowest_first, row.first_offset)

    def reopen(self, rows: AbortedRows | None) -> None:
        """It is active again. `rows` are all of its rows, None without any: the index file will not have them."""
        self.closed_ms, self.rows = None, rows
        self.cleaned_to, self.cleaned_times, self.delete_bytes = NO_INDEX, [], 0
        assert (rows is not None) == self.has_rows
        self.file.set_active(True)

    def cut(self, cut: "Cut") -> None:
        """Forget what lies at and behind `cut`; the file is cut by others."""
        self.index.cut(cut.position, cut.max_timestamp)
        if self.rows is not None:
            self.rows.cut(cut.base_offset)
            self.lowest_first = self.rows.lowest
            self.rows = self.rows or None
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


def scan(
    view: SegmentView, chunk: int = _SCAN_CHUNK_BYTES, is_wanted: Callable[[EntryHead], bool] = lambda head: True
) -> Iterator[tuple[int, ParsedEntry]]:
    """Yield (position, entry) for the entries of `view`; ends early where the bytes end within an entry.

    It ends before an entry, too, that would have to be read by itself and is not wanted.

    Raises:
        CorruptLogError: Bytes that are no entry, or a wrong checksum; the message names file and position.
        UnknownFormatError: A newer version wrote them.
    """
    start = position = view.position
    buffer = memoryview(b"")
    while position < view.end:
        parsed = _parsed(parse_entry, view, buffer, position, start)
        if parsed is None:
            have = start + len(buffer) - position
            if have >= view.end - position:
                return
            head = _parsed(parse_head, view, buffer, position, start)
            if head is not None and not is_wanted(head):
                return
            wanted = min(view.end - position, max(chunk, 2 * have if head is None else head.size))
            start, buffer = position, _pread(view, wanted, position)
            continue
        yield position, parsed
        position += parsed.entry.size


def scan_heads(view: SegmentView) -> Iterator[EntryHead]:
    """Yield the headers of the entries of `view`, without reading large payloads; raises what `scan` raises.

    For looking something up: what is told of it is under the header's checksum, and payloads are checked when read.
    """
    start = position = view.position
    buffer = memoryview(b"")
    chunk = _HEADS_CHUNK_BYTES
    while position < view.end:
        head = _parsed(parse_head, view, buffer, position, start)
        if head is None:
            have = start + len(buffer) - position
            if have >= view.end - position:
                return
            if have > 0:
                # Small entries, back to back.
                chunk = min(2 * chunk, LOOKUP_CHUNK_BYTES)
            start, buffer = position, _pread(view, min(view.end - position, chunk), position)
            continue
        yield head
        position += head.size


def _parsed(
    parse: Callable[[memoryview, int], T], view: SegmentView, buffer: memoryview, position: int, start: int
) -> T:
    try:
        return parse(buffer, position - start)
    except UnknownFormatError as error:
        raise UnknownFormatError(f"{view.path}, byte {position}: {error}") from error
    except CorruptEntryError as error:
        raise CorruptLogError(f"{view.path} is damaged at byte {position}: {error}", view.path) from error


def _pread(view: SegmentView, size: int, position: int) -> memoryview:
    data = memoryview(view.file.pread(size, position))
    if len(data) < size:
        raise CorruptLogError(f"{view.path} is shorter than it was: {position + len(data)} bytes", view.path)
    return data


class Place(NamedTuple):
    """Where an entry begins: in which of the views that were read, and at which byte of the file."""

    view: int
    position: int


def read_run(
    views: list[SegmentView], first: Index, last: Index, max_bytes: int, places: list[Place] | None = None
) -> list[Entry]:
    """Return the entries [first, last] until `max_bytes` would be exceeded or damage follows, at least one.

    A placeholder is returned whole, also where it begins before `first`. `places` gets where each entry begins.

    Raises:
        CorruptLogError: Entry `first` is damaged, not there, or not reached because of damage before it.
    """
    entries: list[Entry] = []
    room = _Room(max_bytes)
    try:
        chunk = min(max_bytes + LOOKUP_CHUNK_BYTES, 4 * _SCAN_CHUNK_BYTES)
        for place, entry in _run(views, first, last, chunk, room):
            if not room.has(entry.size):
                break
            room.take(entry.size)
            entries.append(entry)
            if places is not None:
                places.append(place)
    except CorruptLogError:
        # Whoever asks for the damaged entry is told; what lies before it is good.
        if not entries:
            raise
    if not entries:
        path = views[0].path if views else None
        raise CorruptLogError(f"{path or 'no segment'}: entry {first} is not where it should be", path)
    return entries


class _Room:
    """How many bytes a run may still get; its first entry has room whatever its size."""

    def __init__(self, left: int) -> None:
        self._left = left
        self._is_empty = True
        self.is_full = False

    def has(self, size: int) -> bool:
        self.is_full = self.is_full or not (self._is_empty or size <= self._left)
        return not self.is_full

    def take(self, size: int) -> None:
        self._left -= size
        self._is_empty = False
        self.is_full = self._left < HEADER_BYTES


def _run(views: list[SegmentView], first: Index, last: Index, chunk: int, room: _Room) -> Iterator[tuple[Place, Entry]]:
    due = first
    for number, view in enumerate(views):
        if room.is_full:
            return
        # Without this the entry that has no room would be read and checked, and thrown away.
        for position, parsed in scan(view, chunk, lambda head: room.has(head.size)):
            entry = parsed.entry
            if entry.last_index < first:
                continue
            # The first one may be a placeholder that stands for entries before `first`, too.
            if entry.index != due and not (due == first and entry.index < first):
                raise CorruptLogError(f"{view.path}: entry {entry.index} where {due} should be", view.path)
            yield Place(number, position), entry
            if entry.last_index >= last or room.is_full:
                return
            due = Index(entry.last_index + 1)


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
