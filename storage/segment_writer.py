"""The blocking half of an append: runs on a worker, touches files only."""

from dataclasses import dataclass, field

from runtime.files import File, FileSystem
from storage.entry import Buffer, Entry, EntryKind
from storage.segment import Segment


@dataclass(slots=True)
class SegmentPart:
    """The entries of one append that go into one segment, which may be new (`segment` and `file` None)."""

    path: str
    position: int
    created_ms: int
    data_term: int
    segment: Segment | None
    file: File | None
    entries: list[Entry] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    size: int = 0

    @classmethod
    def at_end_of(cls, segment: Segment) -> "SegmentPart":
        """Continue a segment."""
        return cls(
            segment.path, segment.size, segment.created_ms, segment.data_term, segment, segment.file, size=segment.size
        )

    @classmethod
    def new(cls, path: str, first: Entry, now_ms: int) -> "SegmentPart":
        """Begin a segment with `first`."""
        return cls(path, 0, now_ms, 0, None, None)

    def add(self, entry: Entry, header: bytes) -> None:
        """Append an entry to the part."""
        self.entries.append(entry)
        self.buffers.append(header)
        if entry.payload:
            self.buffers.append(entry.payload)
        self.size += entry.size
        if entry.kind is EntryKind.DATA:
            self.data_term = entry.term


def write_parts(files: FileSystem, directory: str, parts: list[SegmentPart]) -> None:
    """Write the parts in order; a new file's name is durable before anything in it can be claimed to be."""
    for part in parts:
        if part.file is None:
            part.file = files.open(part.path, create=True)
            files.fsync_dir(directory)
        part.file.pwritev(part.buffers, part.position)


def cut_back(files: FileSystem, directory: str, parts: list[SegmentPart]) -> None:
    """Undo a failed `write_parts`: newest first, remove new files, cut the continued one to its old size."""
    for part in reversed(parts):
        if part.segment is not None:
            part.segment.file.truncate(part.position)
        elif part.file is not None:
            part.file.close()
            part.file = None
            files.unlink(part.path)
            files.fsync_dir(directory)


def persist_index(files: FileSystem, path: str, content: bytes) -> None:
    """Write an index file: temporary, fsync, rename. Its directory entry may be lost: then it is built again."""
    temporary = f"{path}.tmp"
    if files.exists(temporary):
        files.unlink(temporary)
    file = files.open(temporary, create=True)
    try:
        file.pwritev([content], 0)
        file.fsync()
    finally:
        file.close()
    files.rename(temporary, path)
