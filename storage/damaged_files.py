"""Copies of damaged files, `<name>.damaged`: kept for a person to look at until the replica is whole again.

Every step is durable before the next begins, newest file first: a crash in between leaves a log that is damaged as it
was, or cut already. Blocking: runs on a worker.
"""

from runtime.files import FileSystem
from storage.index_file import index_path, remove_index_file
from storage.segment import Segment
from storage.segment_loader import NamedSegment
from storage.snapshot_file import snapshot_path

DAMAGED_SUFFIX = ".damaged"
_TEMPORARY_SUFFIX = ".tmp"
_CHUNK_BYTES = 1024 * 1024


def damaged_copies(files: FileSystem, directory: str) -> list[str]:
    """Return the paths of the copies in a directory."""
    return [f"{directory}/{name}" for name in files.listdir(directory) if name.endswith(DAMAGED_SUFFIX)]


def remove_damaged_copies(files: FileSystem, directory: str) -> None:
    """Delete the copies, durably. May be repeated where it failed."""
    for path in damaged_copies(files, directory):
        files.unlink(path)
    files.fsync_dir(directory)


def set_snapshot_aside(files: FileSystem, directory: str) -> None:
    """Turn a damaged snapshot into a copy."""
    path = snapshot_path(directory)
    files.rename(path, path + DAMAGED_SUFFIX)
    files.fsync_dir(directory)


def set_segments_aside(files: FileSystem, directory: str, lost: list[NamedSegment]) -> None:
    """Turn whole segments into copies, newest first."""
    for each in reversed(lost):
        remove_index_file(files, directory, index_path(each.path))
        files.rename(each.path, each.path + DAMAGED_SUFFIX)
        files.fsync_dir(directory)


def copy_damaged_end(files: FileSystem, directory: str, segment: Segment) -> None:
    """Copy the bytes behind a segment's last good entry; the caller cuts them off after."""
    size = segment.file.size()
    if size <= segment.size:
        return
    target = segment.path + DAMAGED_SUFFIX
    temporary = target + _TEMPORARY_SUFFIX
    if files.exists(temporary):
        files.unlink(temporary)
    copy = files.open(temporary, create=True)
    try:
        position = segment.size
        while position < size:
            data = segment.file.pread(min(_CHUNK_BYTES, size - position), position)
            copy.pwritev([data], position - segment.size)
            position += len(data)
        copy.fsync()
    finally:
        copy.close()
    files.rename(temporary, target)
    files.fsync_dir(directory)
