"""Which segments of a log have a witness on the disk: something else that tells a start that they had been fsynced."""

from collections.abc import Collection, Sequence

from model.ids import NO_INDEX, Index
from storage.entry import parse_head
from storage.errors import StorageError
from storage.index_file import index_path
from storage.segment import Segment
from tests.simulation.world.sim_disk import Inode, SimDisk


def witnessed_segments(disk: SimDisk, segments: Sequence[Segment], flipped: Collection[Inode]) -> list[Segment]:
    """Return those before the last two that may rot, and a start finds it (RFC 0002, section 7).

    Either an entry of the last two says in its header that they were fsynced, or their own index file, which is whole.
    Without either, damage looks like the torn end of a log that was never fsynced (seed 57200).
    """
    mark = max((_mark(disk, each.path) for each in segments[-2:]), default=NO_INDEX)
    return [each for each in segments[:-2] if each.last_index <= mark or _has_index(disk, each, flipped)]


def _has_index(disk: SimDisk, segment: Segment, flipped: Collection[Inode]) -> bool:
    path = index_path(segment.path)
    return bool(disk.durable_bytes(path)) and disk.inode(path) not in flipped


def _mark(disk: SimDisk, path: str) -> Index:
    """Return the largest flushed mark in the headers of a file."""
    content, position, mark = memoryview(disk.durable_bytes(path) or b""), 0, NO_INDEX
    try:
        while (head := parse_head(content, position)) is not None:
            mark, position = max(mark, head.flushed), position + head.size
    except StorageError:
        # Zeros ahead of what is written, or what has rotted.
        pass
    return mark
