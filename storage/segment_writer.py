"""Writing segments: how an append is spread over files, and the blocking halves of append and truncation."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from model.ids import Index
from runtime.open_files import CachedFile, OpenFiles
from storage.entry import Buffer, Entry, EntryKind, pack_header
from storage.index_file import index_path
from storage.log_start import decode_log_start
from storage.options import LogOptions
from storage.segment import Segment, segment_name


@dataclass(slots=True)
class SegmentPart:
    """The entries of one append that go into one segment, which may be new (`segment` and `file` None).

    `before` is the part that a new segment follows, and closes. `is_pinned`: the file stays open until `release`.
    """

    path: str
    position: int
    created_ms: int
    data_term: int
    segment: Segment | None
    file: CachedFile | None
    entries: list[Entry] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    size: int = 0
    before: "SegmentPart | None" = None
    is_pinned: bool = False

    @classmethod
    def at_end_of(cls, segment: Segment) -> "SegmentPart":
        """Continue a segment."""
        return cls(
            segment.path, segment.size, segment.created_ms, segment.data_term, segment, segment.file, size=segment.size
        )

    @classmethod
    def new(cls, path: str, now_ms: int, before: "SegmentPart | None") -> "SegmentPart":
        """Begin a segment."""
        return cls(path, 0, now_ms, 0, None, None, before=before)

    def add(self, entry: Entry, header: bytes) -> None:
        """Append an entry to the part."""
        self.entries.append(entry)
        self.buffers.append(header)
        if entry.payload:
            self.buffers.append(entry.payload)
        self.size += entry.size
        if entry.kind is EntryKind.DATA:
            self.data_term = entry.term

    def check_unwritten(self) -> None:
        """Assert that memory knows nothing of it: entries count once all are written, or not at all (section 4)."""
        assert self.position == (0 if self.segment is None else self.segment.size)
        assert self.position + sum(map(len, self.buffers)) == self.size

    def check_written(self) -> None:
        """Assert that memory knows all of the part, and nothing behind it."""
        assert self.segment is not None
        assert (self.segment.last_index, self.segment.size) == (self.entries[-1].last_index, self.size)

    def release(self) -> None:
        """What was written is noted as dirty, or undone: the file may be closed as far as this append goes."""
        if self.is_pinned and self.file is not None:
            self.is_pinned = False
            self.file.unpin()


def plan_parts(
    directory: str, active: Segment | None, entries: Sequence[Entry], flushed: Index, options: LogOptions, now_ms: int
) -> list[SegmentPart]:
    """Spread entries over the active segment and, where the roll rule says so, new ones."""
    # Section 7: a header proves what was fsynced before its entry, never the entry itself.
    assert flushed < entries[0].index
    parts: list[SegmentPart] = []
    part = SegmentPart.at_end_of(active) if active is not None else None
    for entry in entries:
        if part is None or _must_roll(part, entry, options, now_ms):
            part = SegmentPart.new(f"{directory}/{segment_name(entry.index, entry.term)}", now_ms, part)
            parts.append(part)
        elif not parts:
            parts.append(part)
        part.add(entry, pack_header(entry, flushed))
    return parts


def _must_roll(part: SegmentPart, entry: Entry, options: LogOptions, now_ms: int) -> bool:
    if part.size == 0:
        return False
    if part.size + entry.size > options.segment_bytes:
        return True
    if now_ms - part.created_ms > options.segment_ms:
        return True
    # Nothing before it can be read once it is committed: the segment it would have been in can be deleted.
    if entry.kind is EntryKind.LOG_START and decode_log_start(entry.payload).index == entry.index:
        return True
    # A term that brings data begins a segment: a leader change is visible in the directory.
    return entry.kind is EntryKind.DATA and 0 < part.data_term < entry.term


def write_parts(files: OpenFiles, directory: str, parts: list[SegmentPart]) -> None:
    """Write the parts in order; a new file's name is durable before anything in it can be claimed to be.

    The files stay pinned until `SegmentPart.release`: what is written is not durable.
    """
    for part in parts:
        part.check_unwritten()
        if part.file is None:
            if part.before is not None and part.before.file is not None:
                # What it was made longer by is not needed any more; after a crash recovery does this again.
                part.before.file.truncate(part.before.size)
            part.file = files.create_cached(part.path)
            part.is_pinned = True
            files.fsync_dir(directory)
        elif not part.is_pinned:
            part.file.pin()
            part.is_pinned = True
        part.file.append(part.buffers, part.position)


def cut_back(files: OpenFiles, directory: str, parts: list[SegmentPart]) -> None:
    """Undo a failed `write_parts`: newest first, remove new files, cut the continued one to its old size.

    Durably: the next append may put other entries of the same indexes and term there, and a crash must not bring
    these ones back. May be repeated where it failed half-way. A part that was not reached has nothing to undo.
    """
    for part in reversed(parts):
        part.check_unwritten()
        if part.segment is not None and part.is_pinned:
            part.segment.file.truncate(part.position)
            part.segment.file.fsync()
        elif part.segment is None and part.file is not None:
            if files.exists(part.path):
                files.unlink(part.path)
            files.fsync_dir(directory)
            part.release()
            part.file.close()
            part.file = None


def remove_and_cut(
    files: OpenFiles, directory: str, removed: list[Segment], last: Segment | None, position: int | None
) -> None:
    """Truncate on disk: remove whole segments, newest first, then cut the last one at `position` if there is one.

    `last` becomes the active segment again: its index file would soon be wrong. May be repeated where it failed.
    """
    _check_left(removed)
    if last is not None:
        # Section 6: memory has moved before the disk, to the same byte, and nothing that stays goes.
        assert position in (None, last.size)
        assert not removed or last.last_index < removed[0].base_index
    for segment in reversed(removed):
        _unlink(files, index_path(segment.path))
        _unlink(files, segment.path)
        files.fsync_dir(directory)
    if last is None:
        return
    _unlink(files, index_path(last.path))
    files.fsync_dir(directory)
    if position is not None:
        with last.file.pinned():
            last.file.truncate(position)
            last.file.fsync()


def remove_prefix(files: OpenFiles, directory: str, removed: list[Segment]) -> None:
    """Delete segments below a durable start, oldest first. In any order, what a crash leaves of them goes later.

    May be repeated where it failed.
    """
    _check_left(removed)
    for segment in removed:
        _unlink(files, index_path(segment.path))
        _unlink(files, segment.path)
    files.fsync_dir(directory)


def _check_left(removed: list[Segment]) -> None:
    """Assert that what is removed is in order and has given up its name: no read opens it again (section 12)."""
    assert all(earlier.last_index < later.base_index for earlier, later in pairwise(removed))
    assert all(segment.file.is_nameless for segment in removed)


def _unlink(files: OpenFiles, path: str) -> None:
    if files.exists(path):
        files.unlink(path)
