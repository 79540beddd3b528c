"""Reading the segments of a directory one after the other, up to the first damage; nothing is changed here.

What undamaged bytes tell is learned on the way, also behind the damage: the flushed mark, and the last entry that had
been there. Blocking: runs on a worker.
"""

from contextlib import ExitStack
from typing import NamedTuple

from model.ids import NO_INDEX, GroupId, Index, Offset, Term
from runtime.files import File, FileSystem
from runtime.open_files import OpenFiles
from storage.aborted_rows import NO_ROWS, AbortedRows
from storage.entry import MAGIC, Entry, parse_entry, parse_mark
from storage.errors import CorruptEntryError, CorruptLogError, ForeignSegmentError
from storage.index_file import IndexRecord, index_path, read_index_file
from storage.log_start import LogStart
from storage.options import LogOptions
from storage.segment import (
    LOOKUP_CHUNK_BYTES,
    Segment,
    SegmentView,
    max_timestamp_of,
    parse_segment_name,
    scan,
)
from storage.segment_index import SegmentIndex, TermStart

_MAGIC_BYTES = MAGIC.to_bytes(4, "big")
_BLANK_CHUNK_BYTES = 256 * 1024


class NamedSegment(NamedTuple):
    """What the name of a segment file says; sorts in the order of the log."""

    base_index: Index
    term: Term
    path: str


def list_segments(files: FileSystem, directory: str) -> list[NamedSegment]:
    """Return the segments in a directory, in the order of the log."""
    named = []
    for name in files.listdir(directory):
        parsed = parse_segment_name(name)
        if parsed is not None:
            named.append(NamedSegment(*parsed, f"{directory}/{name}"))
    return sorted(named)


class SegmentLoader:
    """One pass over segments of which the first one holds the start of the log, or should.

    Attributes:
        segments: Those that were loaded; the last one's `size` ends before the damage, if there is any.
        terms: Where terms begin in them.
        next_index: The entry that should come next.
        next_offset: Its base offset.
        last_term: The term of the last good entry; that before the start if there is none.
        mark: Entries up to here had been fsynced; what the caller knows, or more.
        witnessed: The part of it that was found in the directory.
        lost_index, lost_term: The last index and the last term seen anywhere.
    """

    def __init__(
        self,
        files: OpenFiles,
        options: LogOptions,
        group: GroupId,
        start: LogStart,
        known_index: Index,
        now_ms: int,
        rescan: frozenset[str],
    ) -> None:
        self._files = files
        self._options = options
        self._group = group
        self._start = start
        self._now_ms = now_ms
        self._rescan = rescan
        self.segments: list[Segment] = []
        self.terms: list[TermStart] = []
        self.next_index = start.index
        self.next_offset: Offset = start.base_offset
        self.last_term = start.prev_term
        self.mark = known_index
        self.witnessed = Index(0)
        self.lost_index = Index(0)
        self.lost_term = Term(0)
        # How many of the segments precede a gap that lies below the start: they are to be left out of the next load.
        self.strays = 0

    def load(self, named: list[NamedSegment], opened: ExitStack) -> str | None:
        """Load segments up to the first damage and return what it is; files are closed by `opened`.

        Raises:
            CorruptLogError: Two of them overlap.
            ForeignSegmentError: One is another log's.
            UnknownFormatError: A newer version wrote them.
        """
        damage = None
        if named and named[0].base_index < self._start.index:
            # What lies before the start is read along with it: where it stands is learned from its first entry.
            self.next_index, self.last_term = named[0].base_index, Term(0)
        for position, each in enumerate(named):
            if damage is None and self.next_index < each.base_index <= self._start.index:
                # Segments below the start go in one step, and a power loss may bring back any of them. An install that
                # a crash has interrupted leaves no such gap: it removes newest first, each name for good.
                self.strays = position
                return None
            # The name alone tells that everything before it had been there.
            self._witness(Index(0), Index(each.base_index - 1), each.term)
            if damage is None and each.base_index > self.next_index:
                # A file whose last bytes were lost at an entry's end shows only in the next one's name.
                damage = f"{each.path} begins at {each.base_index}, entry {self.next_index} is missing"
            if damage is not None:
                self._learn_behind(each.base_index, each.path, 0)
                continue
            if each.base_index < self.next_index:
                raise CorruptLogError(f"{each.path} overlaps the one before: entry {self.next_index} should be next")
            damage = self._load_one(each, opened)
        if damage is None and self.next_index <= self.witnessed:
            # Only an index file can have told: the file lost whole entries at its end.
            damage = f"{named[-1].path} ends before entry {self.next_index}"
        # Section 7: the mark is the largest of all that tells of an fsync, and no vote may forget an entry below it.
        assert self.witnessed <= min(self.mark, self.lost_index)
        return damage

    def _load_one(self, named: NamedSegment, opened: ExitStack) -> str | None:
        # Section 7, 2: what begins later was called damage, what begins earlier was refused.
        assert named.base_index == self.next_index
        file = self._files.cached(named.path)
        opened.callback(file.close)
        index = SegmentIndex(self._options.index_interval_bytes)
        segment = Segment(
            named.path,
            named.base_index,
            self.next_offset,
            named.term,
            file,
            index,
            self._now_ms,
            Index(named.base_index - 1),
            closed_ms=self._now_ms,
        )
        is_first = not self.segments
        self.segments.append(segment)
        size = file.size()
        damage = None if self._load_index_file(segment, size, is_first) else self._scan(segment, size, is_first)
        # I1 of RFC 0002, for the log to be: what counts is what its segments hold, up to the damage.
        assert self.next_index == segment.last_index + 1
        return damage

    def _is_before_start(self, segment: Segment) -> bool:
        return segment.base_index < self._start.index

    # -- with an index file ---------------------------------------------------------------------------------------

    def _load_index_file(self, segment: Segment, size: int, is_first: bool) -> bool:
        """Take a closed segment's facts from its index file; False if the segment must be scanned."""
        record = read_index_file(self._files, index_path(segment.path), self._group, segment.base_index)
        if record is None:
            return False
        # It exists only where all this was fsynced, even if the file does not hold it any more.
        self._witness(Index(record.last_index), Index(record.last_index), record.terms[-1].term)
        # Its age stands nowhere else where batches have no timestamps.
        segment.created_ms = min(record.created_ms, self._now_ms)
        first = record.terms[0]
        fits = is_first and self._is_before_start(segment)
        if segment.path in self._rescan or record.size != size or first.term != segment.term:
            return False
        if not (fits or first.base_offset == self.next_offset) or first.term < self.last_term:
            return False
        self._fill(segment, record)
        if not self._start_is_inside(segment):
            self._empty(segment)
            return False
        for start in record.terms:
            self._add_term(start)
        self.next_index, self.next_offset = Index(record.last_index + 1), Offset(record.end_offset)
        return True

    def _fill(self, segment: Segment, record: IndexRecord) -> None:
        interval = self._options.index_interval_bytes
        segment.index = SegmentIndex.from_columns(record.columns, record.size, record.max_timestamp, interval)
        # The rows themselves are read again when they are needed.
        segment.rows, segment.lowest_first = None, AbortedRows.from_columns(record.rows).lowest
        segment.base_offset = record.terms[0].base_offset
        segment.size, segment.last_index = record.size, Index(record.last_index)
        segment.data_term = record.data_term
        segment.closed_ms = min(record.closed_ms, self._now_ms)
        segment.cleaned_to, segment.cleaned_times = Index(record.cleaned_to), record.cleaned_times
        segment.delete_bytes = record.delete_bytes
        segment.has_index_file = True

    def _empty(self, segment: Segment) -> None:
        segment.index = SegmentIndex(self._options.index_interval_bytes)
        segment.size, segment.last_index = 0, Index(segment.base_index - 1)
        segment.closed_ms = self._now_ms
        segment.data_term, segment.has_index_file = 0, False
        segment.rows, segment.lowest_first = None, NO_ROWS
        segment.cleaned_to, segment.cleaned_times, segment.delete_bytes = NO_INDEX, [], 0

    def _start_is_inside(self, segment: Segment) -> bool:
        """Look up the entry at the start if it lies inside; False if the bytes there are damaged."""
        if not segment.base_index < self._start.index <= segment.last_index:
            return True
        try:
            self.offset_at_start(segment)
        except CorruptLogError:
            return False
        return True

    def offset_at_start(self, segment: Segment) -> Offset:
        """Return the base offset of the entry at the start, which lies inside `segment`.

        Inside a placeholder that is whatever the start says, as far as it is possible.

        Raises:
            CorruptLogError: Damage.
        """
        view = segment.view(segment.index.position_of_index(self._start.index))
        start = self._start
        for _, parsed in scan(view, LOOKUP_CHUNK_BYTES):
            entry = parsed.entry
            if entry.index == start.index:
                return entry.base_offset
            if entry.index < start.index <= entry.last_index:
                return min(max(start.base_offset, entry.base_offset), entry.end_offset)
        raise CorruptLogError(f"{view.path}: entry {start.index} is not where it should be", view.path)

    # -- without ------------------------------------------------------------------------------------------------

    def _scan(self, segment: Segment, size: int, is_first: bool) -> str | None:
        """Scan the file; return what is wrong with it, if anything. `segment.size` ends before the damage."""
        view = SegmentView(segment.path, segment.file, 0, size)
        damage = None
        try:
            for position, parsed in scan(view):
                entry = parsed.entry
                if position == 0 and is_first and self._is_before_start(segment):
                    self.next_offset = segment.base_offset = entry.base_offset
                if position == 0:
                    self._check_first(segment, entry)
                damage = self._disorder(segment, entry, position)
                if damage is not None:
                    break
                self._add_term(TermStart(entry.index, entry.term, entry.base_offset))
                first_timestamp = max_timestamp_of(entry) if segment.data_term == 0 else -1
                if 0 <= first_timestamp < segment.created_ms:
                    segment.created_ms = first_timestamp
                segment.add(entry)
                self._witness(parsed.flushed, entry.last_index, entry.term)
                self.next_index, self.next_offset = Index(entry.last_index + 1), entry.end_offset
        except CorruptLogError as error:
            damage = str(error)
        if damage is None and segment.size < size:
            damage = f"{segment.path} ends within an entry at byte {segment.size}"
        if damage is not None and _is_blank(segment.file, segment.size, size):
            damage = None
        if damage is not None:
            self._learn_behind(segment.base_index, segment.path, segment.size)
        return damage

    def _disorder(self, segment: Segment, entry: Entry, position: int) -> str | None:
        if entry.index != self.next_index or entry.base_offset != self.next_offset:
            return f"{segment.path}: entry {entry.index} at byte {position}, {self.next_index} was due"
        if entry.term < self.last_term:
            return f"{segment.path}: term {entry.term} at byte {position} follows {self.last_term}"
        return None

    def _check_first(self, segment: Segment, entry: Entry) -> None:
        """A whole first entry that does not belong here is no work of a power loss: the file is another log's."""
        found = self._disorder(segment, entry, 0)
        if found is None and entry.term != segment.term:
            found = f"{segment.path}: its first entry is of term {entry.term}"
        if found is not None:
            raise ForeignSegmentError(f"{found}; it does not belong to this log: take it away")

    def _add_term(self, start: TermStart) -> None:
        if not self.terms or start.term > self.terms[-1].term:
            self.terms.append(start)
            self.last_term = start.term

    # -- behind the damage ----------------------------------------------------------------------------------------

    def _learn_behind(self, base_index: Index, path: str, position: int) -> None:
        """Take what valid headers at and behind the damage tell, found by their magic."""
        record = read_index_file(self._files, index_path(path), self._group, base_index)
        if record is not None:
            self._witness(Index(record.last_index), Index(record.last_index), record.terms[-1].term)
        file = self._files.open(path)
        try:
            data = file.pread(file.size() - position, position)
        finally:
            file.close()
        content = memoryview(data)
        at = data.find(_MAGIC_BYTES)
        while at >= 0:
            mark = parse_mark(content, at)
            if mark is not None:
                self._witness(mark.flushed, mark.last_index, mark.term)
            at = data.find(_MAGIC_BYTES, at + _whole_entry_bytes(content, at))

    def _witness(self, flushed: Index, index: Index, term: Term) -> None:
        """Entries up to `flushed` were fsynced; there was an entry `index` and one of `term`."""
        self.mark = max(self.mark, flushed)
        self.witnessed = max(self.witnessed, flushed)
        self.lost_index = max(self.lost_index, index, flushed)
        self.lost_term = max(self.lost_term, term)


def _is_blank(file: File, position: int, end: int) -> bool:
    """Whether there are only zeros from `position` on: the file was made longer ahead of what was written."""
    while position < end:
        data = file.pread(min(_BLANK_CHUNK_BYTES, end - position), position)
        if not data or data.count(0) < len(data):
            return False
        position += len(data)
    return True


def _whole_entry_bytes(content: memoryview, position: int) -> int:
    """Return the size of the valid entry at `position`: its payload may hold anything, a magic too. 1 if not valid."""
    try:
        parsed = parse_entry(content, position)
    except CorruptEntryError:
        return 1
    return parsed.entry.size if parsed is not None else 1
