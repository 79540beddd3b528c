"""What a crash left of a log: find the segments, scan what has no index, cut a torn tail, refuse damage.

The flushed mark is the largest `flushed` in any valid header: everything up to it was once fsynced. Where the first
damage is at or below the mark, durable bytes have changed: nothing is touched and the log is refused. Above the mark
the damage is what a power loss leaves of bytes that no fsync had covered; they are cut there, also when later
un-fsynced bytes happened to survive behind a hole.

Blocking: runs on a worker, before the log is shared.
"""

from dataclasses import dataclass

from model.ids import Index, Offset, Term
from runtime.files import FileSystem
from storage.entry import HEADER_BYTES, MAGIC, parse_entry
from storage.errors import CorruptEntryError, CorruptLogError
from storage.options import LogOptions
from storage.segment import Segment, SegmentView, parse_segment_name, scan
from storage.segment_index import SegmentIndex, TermStart, decode_index

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


class LogRecovery:
    """One recovery of one directory."""

    def __init__(self, files: FileSystem, directory: str, options: LogOptions, now_ms: int) -> None:
        self._files = files
        self._directory = directory
        self._options = options
        self._now_ms = now_ms
        self._terms: list[TermStart] = []
        self._mark = Index(0)
        self._next_index = Index(1)
        self._next_offset = Offset(0)
        self._last_term = Term(0)

    def run(self) -> RecoveredLog:
        """Recover.

        Raises:
            CorruptLogError: Durable bytes are damaged, or segments overlap or leave a gap; nothing was changed.
        """
        named = self._named_segments()
        segments: list[Segment] = []
        damage: str | None = None
        for base_index, term, name in named:
            if damage is not None:
                # Valid entries behind the damage still tell how far the log was once fsynced.
                self._learn_mark_behind(f"{self._directory}/{name}", 0)
                continue
            if base_index != self._next_index:
                kind = "overlaps the one before" if base_index < self._next_index else "leaves a gap"
                raise CorruptLogError(f"{self._directory}/{name} {kind}: entry {self._next_index} should be next")
            segment, damage = self._load(base_index, term, name)
            segments.append(segment)
        if damage is not None and self._next_index <= self._mark:
            raise CorruptLogError(f"{damage}; entries up to {self._mark} had been fsynced: restore this replica")
        cut_bytes = self._cut(segments, named)
        self._rewrite_tail(segments)
        return RecoveredLog(segments, self._terms, Index(self._next_index - 1), self._next_offset, cut_bytes)

    def _named_segments(self) -> list[tuple[Index, Term, str]]:
        named = []
        for name in self._files.listdir(self._directory):
            parsed = parse_segment_name(name)
            if parsed is not None:
                named.append((*parsed, name))
        return sorted(named)

    def _load(self, base_index: Index, term: Term, name: str) -> tuple[Segment, str | None]:
        path = f"{self._directory}/{name}"
        file = self._files.open(path)
        size = file.size()
        index = SegmentIndex(self._options.index_interval_bytes)
        segment = Segment(path, base_index, self._next_offset, term, file, index, self._now_ms, Index(base_index - 1))
        if self._load_index(segment, size):
            return segment, None
        return segment, self._scan(segment, size)

    def _load_index(self, segment: Segment, size: int) -> bool:
        """Take a closed segment's facts from its `.index`, which exists only once the segment is durable."""
        path = index_path(segment.path)
        if not self._files.exists(path):
            return False
        file = self._files.open(path)
        try:
            record = decode_index(file.pread(file.size(), 0), segment.base_index, size)
        finally:
            file.close()
        if record is None:
            return False
        segment.index = SegmentIndex.from_record(record, self._options.index_interval_bytes)
        segment.size, segment.last_index = record.size, Index(record.last_index)
        if record.end_offset > segment.base_offset:
            segment.data_term = record.terms[-1][1]
        for first_index, term, base_offset in record.terms:
            self._note_term(Index(first_index), Term(term), Offset(base_offset))
        self._mark = max(self._mark, Index(record.last_index))
        self._next_index, self._next_offset = Index(record.last_index + 1), Offset(record.end_offset)
        return True

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
                self._note_term(entry.index, entry.term, entry.base_offset)
                segment.note(entry)
                self._mark = max(self._mark, parsed.flushed)
                self._next_index, self._next_offset = Index(entry.index + 1), entry.end_offset
        except CorruptLogError as error:
            damage = str(error)
        if damage is None and segment.size < size:
            damage = f"{segment.path} ends within an entry at byte {segment.size}"
        if damage is not None:
            self._learn_mark_behind(segment.path, segment.size)
        return damage

    def _learn_mark_behind(self, path: str, position: int) -> None:
        """Look for valid headers behind the damage by their magic, and take their marks."""
        file = self._files.open(path)
        try:
            size = file.size()
            content = memoryview(file.pread(size - position, position))
        finally:
            file.close()
        data = bytes(content)
        at = data.find(_MAGIC_BYTES, 1)
        while at >= 0:
            try:
                parsed = parse_entry(content, at)
            except CorruptEntryError:
                parsed = None
            if parsed is not None:
                self._mark = max(self._mark, parsed.flushed)
                at += HEADER_BYTES - 1
            at = data.find(_MAGIC_BYTES, at + 1)

    def _note_term(self, index: Index, term: Term, base_offset: Offset) -> None:
        if term > self._last_term:
            self._terms.append(TermStart(index, term, base_offset))
            self._last_term = term

    def _cut(self, segments: list[Segment], named: list[tuple[Index, Term, str]]) -> int:
        """Remove what lies behind the last good entry: newest file first, then the end of the last one kept."""
        cut = 0
        kept = {segment.path for segment in segments}
        for _, _, name in reversed(named):
            path = f"{self._directory}/{name}"
            if path not in kept:
                self._files.unlink(path)
                self._files.fsync_dir(self._directory)
                cut += 1
        while segments and segments[-1].size == 0:
            empty = segments.pop()
            empty.file.close()
            self._files.unlink(empty.path)
            self._files.fsync_dir(self._directory)
        if segments:
            last = segments[-1]
            excess = last.file.size() - last.size
            if excess > 0:
                last.file.truncate(last.size)
                last.file.fsync()
                cut += excess
        return cut

    def _rewrite_tail(self, segments: list[Segment]) -> None:
        """Write the kept bytes above the mark again, the same in the same place, and fsync.

        A page whose fsync failed before the crash reads back clean from the cache: only a new write makes the
        kernel write it again (counterexample 9b); a copy elsewhere would have to be swapped in (34).
        """
        for segment in segments:
            if segment.last_index <= self._mark:
                continue
            position = segment.index.position_of_index(self._mark + 1)
            while position < segment.size:
                data = segment.file.pread(min(_REWRITE_CHUNK_BYTES, segment.size - position), position)
                segment.file.pwritev([data], position)
                position += len(data)
            segment.file.fsync()
        if segments:
            self._files.fsync_dir(self._directory)


def index_path(segment_path: str) -> str:
    """Return where a closed segment's sparse index lies."""
    return segment_path.removesuffix(".log") + ".index"
