"""What a crash left of a log: find the segments, scan what has no index file, cut a torn tail, refuse damage.

The flushed mark is the largest `flushed` in any valid header: everything up to it was once fsynced. Where the first
damage is at or below the mark, durable bytes have changed: nothing is touched and the log is refused. Above the mark
the damage is what a power loss leaves of bytes that no fsync had covered; they are cut there, also when later
un-fsynced bytes happened to survive behind a hole (RFC 0002, 7).

Blocking: runs on a worker, before the log is shared.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from model.ids import Index, Offset, Term
from runtime.files import FileSystem
from storage.entry import MAGIC, parse_entry, parse_flushed
from storage.errors import CorruptEntryError, CorruptLogError, MismatchedLogError
from storage.index_file import TEMPORARY_SUFFIX, IndexRecord, index_path, read_index_file
from storage.options import LogOptions
from storage.segment import Segment, SegmentView, max_timestamp_of, parse_segment_name, scan
from storage.segment_index import SegmentIndex, TermStart

_MAGIC_BYTES = MAGIC.to_bytes(4, "big")
_REWRITE_CHUNK_BYTES = 1024 * 1024


@dataclass(slots=True)
class RecoveredLog:
    """The segments in order, everything in them durable, and what was learned on the way."""

    segments: list[Segment]
    terms: list[TermStart]
    last_index: Index
    next_offset: Offset
    cut_bytes: int
    damage: str | None


class _Named(NamedTuple):
    base_index: Index
    term: Term
    path: str


class LogRecovery:
    """One recovery of one directory."""

    def __init__(self, files: FileSystem, directory: str, options: LogOptions, now_ms: int, known_index: Index) -> None:
        self._files = files
        self._directory = directory
        self._options = options
        self._now_ms = now_ms
        self._segments: list[Segment] = []
        self._terms: list[TermStart] = []
        self._known_index = known_index
        self._mark = known_index
        self._next_index = Index(1)
        self._next_offset = Offset(0)
        self._last_term = Term(0)

    def run(self) -> RecoveredLog:
        """Recover.

        Raises:
            CorruptLogError: Durable bytes are damaged, or segments overlap; nothing was changed.
            MismatchedLogError: The log ends before what was known to be in it; nothing was changed.
        """
        named = self._named_segments()
        with ExitStack() as opened:
            damage = self._load_all(named, opened)
            if damage is not None and self._next_index <= self._mark:
                raise CorruptLogError(f"{damage}; entries up to {self._mark} had been fsynced: restore this replica")
            if self._next_index <= self._known_index:
                raise MismatchedLogError(self._loss(named))
            empty = [segment for segment in self._segments if segment.size == 0]
            self._segments = [segment for segment in self._segments if segment.size > 0]
            cut_bytes = self._cut(named)
            self._rewrite_tail()
            self._remove_leftovers()
            opened.pop_all()
        for segment in empty:
            segment.file.close()
        last_index = Index(self._next_index - 1)
        return RecoveredLog(self._segments, self._terms, last_index, self._next_offset, cut_bytes, damage)

    def _loss(self, named: list[_Named]) -> str:
        held = f"ends at entry {self._next_index - 1}" if named else "holds no segment"
        return (
            f"{self._directory} {held}, but the kvstore says that this log held entry {self._known_index}, which is"
            " committed: its segments were lost or moved away. A replica without its log would forget what it has"
            " acknowledged, so it does not start; bring the whole data directory back, parts are not enough"
        )

    # -- what is there --------------------------------------------------------------------------------------------

    def _named_segments(self) -> list[_Named]:
        named = []
        for name in self._files.listdir(self._directory):
            parsed = parse_segment_name(name)
            if parsed is not None:
                named.append(_Named(*parsed, f"{self._directory}/{name}"))
        return sorted(named)

    def _load_all(self, named: list[_Named], opened: ExitStack) -> str | None:
        """Load segments up to the first damage and return what it is; the mark is learned from all of them."""
        damage = None
        for each in named:
            if damage is None and each.base_index > self._next_index:
                # A file whose last bytes were lost at an entry's end shows only in the next one's name.
                damage = f"{each.path} begins at {each.base_index}, entry {self._next_index} is missing"
            if damage is not None:
                self._learn_mark_behind(each.base_index, each.path, 0)
                continue
            if each.base_index < self._next_index:
                raise CorruptLogError(f"{each.path} overlaps the one before: entry {self._next_index} should be next")
            file = self._files.open(each.path)
            opened.callback(file.close)
            index = SegmentIndex(self._options.index_interval_bytes)
            before = Index(each.base_index - 1)
            segment = Segment(
                each.path, each.base_index, self._next_offset, each.term, file, index, self._now_ms, before
            )
            self._segments.append(segment)
            size = file.size()
            if not self._take_index_file(segment, size):
                damage = self._scan(segment, size)
        return damage

    def _take_index_file(self, segment: Segment, size: int) -> bool:
        """Take a closed segment's facts from its index file; False if the segment must be scanned."""
        record = read_index_file(self._files, index_path(segment.path), segment.base_index)
        if record is None:
            return False
        # It exists only where all this was fsynced, even if the file does not hold it any more.
        self._mark = max(self._mark, Index(record.last_index))
        first = record.terms[0]
        if record.size != size or first.base_offset != self._next_offset or first.term < self._last_term:
            return False
        self._fill(segment, record)
        for start in record.terms:
            self._note_term(start)
        self._next_index, self._next_offset = Index(record.last_index + 1), Offset(record.end_offset)
        return True

    def _fill(self, segment: Segment, record: IndexRecord) -> None:
        columns = (record.indexes, record.offsets, record.timestamps, record.positions)
        interval = self._options.index_interval_bytes
        segment.index = SegmentIndex.from_columns(columns, record.size, record.max_timestamp, interval)
        segment.size, segment.last_index = record.size, Index(record.last_index)
        segment.created_ms, segment.data_term = min(record.created_ms, self._now_ms), record.data_term
        segment.has_index_file = True

    def _scan(self, segment: Segment, size: int) -> str | None:
        """Scan the file; return what is wrong with it, if anything. `segment.size` ends before the damage."""
        view = SegmentView(segment.path, segment.file, 0, size)
        damage = None
        try:
            for position, parsed in scan(view):
                entry = parsed.entry
                if entry.index != self._next_index or entry.base_offset != self._next_offset:
                    damage = f"{segment.path}: entry {entry.index} at byte {position}, {self._next_index} was due"
                    break
                if entry.term < self._last_term:
                    damage = f"{segment.path}: term {entry.term} at byte {position} follows {self._last_term}"
                    break
                self._note_term(TermStart(entry.index, entry.term, entry.base_offset))
                first_timestamp = max_timestamp_of(entry) if segment.data_term == 0 else -1
                if 0 <= first_timestamp < segment.created_ms:
                    segment.created_ms = first_timestamp
                segment.note(entry)
                self._mark = max(self._mark, parsed.flushed)
                self._next_index, self._next_offset = Index(entry.index + 1), entry.end_offset
        except CorruptLogError as error:
            damage = str(error)
        if damage is None and segment.size < size:
            damage = f"{segment.path} ends within an entry at byte {segment.size}"
        if damage is not None:
            self._learn_mark_behind(segment.base_index, segment.path, segment.size)
        return damage

    def _learn_mark_behind(self, base_index: Index, path: str, position: int) -> None:
        """Take the marks of valid headers at and behind the damage, found by their magic."""
        record = read_index_file(self._files, index_path(path), base_index)
        if record is not None:
            self._mark = max(self._mark, Index(record.last_index))
        file = self._files.open(path)
        try:
            data = file.pread(file.size() - position, position)
        finally:
            file.close()
        content = memoryview(data)
        at = data.find(_MAGIC_BYTES)
        while at >= 0:
            flushed = parse_flushed(content, at)
            if flushed is not None:
                self._mark = max(self._mark, flushed)
            at = data.find(_MAGIC_BYTES, at + _whole_entry_bytes(content, at))

    def _note_term(self, start: TermStart) -> None:
        if start.term > self._last_term:
            self._terms.append(start)
            self._last_term = start.term

    # -- what is changed ------------------------------------------------------------------------------------------

    def _cut(self, named: list[_Named]) -> int:
        """Remove what lies behind the last good entry: newest file first, then the end of the last one kept."""
        cut = 0
        kept = {segment.path for segment in self._segments}
        for each in reversed(named):
            if each.path not in kept:
                cut += self._size_of(each.path)
                self._files.unlink(each.path)
                self._files.fsync_dir(self._directory)
        if self._segments:
            last = self._segments[-1]
            excess = last.file.size() - last.size
            if excess > 0:
                last.file.truncate(last.size)
                last.file.fsync()
                cut += excess
        return cut

    def _size_of(self, path: str) -> int:
        file = self._files.open(path)
        try:
            return file.size()
        finally:
            file.close()

    def _rewrite_tail(self) -> None:
        """Write the kept bytes above the mark again, the same in the same place, and fsync.

        A page whose fsync failed before the crash reads back clean from the cache: only a new write makes the
        kernel write it again (counterexample 9); a copy elsewhere would have to be swapped in (34).
        """
        for segment in self._segments:
            if segment.last_index <= self._mark:
                continue
            position = segment.index.position_of_index(self._mark + 1)
            while position < segment.size:
                data = segment.file.pread(min(_REWRITE_CHUNK_BYTES, segment.size - position), position)
                segment.file.pwritev([data], position)
                position += len(data)
            segment.file.fsync()
        if self._segments:
            self._files.fsync_dir(self._directory)

    def _remove_leftovers(self) -> None:
        """Remove temporary files, and index files that no longer or not for long describe a closed segment."""
        closed = {index_path(segment.path) for segment in self._segments[:-1]}
        if self._segments:
            self._segments[-1].has_index_file = False
        removed = False
        for name in self._files.listdir(self._directory):
            path = f"{self._directory}/{name}"
            if name.endswith(TEMPORARY_SUFFIX) or (name.endswith(".index") and path not in closed):
                self._files.unlink(path)
                removed = True
        if removed:
            self._files.fsync_dir(self._directory)


def _whole_entry_bytes(content: memoryview, position: int) -> int:
    """Return the size of the valid entry at `position`: its payload may hold anything, a magic too. 1 if not valid."""
    try:
        parsed = parse_entry(content, position)
    except CorruptEntryError:
        return 1
    return parsed.entry.size if parsed is not None else 1
