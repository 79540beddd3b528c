"""Large writes past the page cache (O_DIRECT): the kernel copies nothing and needs no fresh pages.

A write into the page cache takes a new page for every 4 KiB, and where the hypervisor has taken free memory back each
of them is a fault into it: 1.9 CPU seconds per GB were measured, 0.2 with O_DIRECT. What is written here may be read
from the page cache as usual: the kernel keeps the two consistent.

Only whole blocks go this way. The end of a write that does not fill a block goes into the page cache as usual, so the
file's size is exact, and nothing is ever padded.
"""

import errno
import mmap
import os
import threading
from collections.abc import Sequence

Buffer = bytes | bytearray | memoryview

# Every disk and file system we know takes multiples of this.
BLOCK_BYTES = 4096
# Below, the extra work costs more than it saves (measured between 64 and 256 KiB).
DIRECT_BYTES_MIN = 128 * 1024
_SCRATCH_BYTES = 1024 * 1024
_UNSUPPORTED = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTTY)


class _Scratch(threading.local):
    """One aligned buffer per writing thread, used again and again: its pages stay warm."""

    def __init__(self) -> None:
        self.view = memoryview(mmap.mmap(-1, _SCRATCH_BYTES))


_scratch = _Scratch()


class NoDirectWriteError(Exception):
    """This write cannot go past the page cache, and the next one may: nothing was written, write as usual."""


def write_direct(descriptor: int, buffers: Sequence[Buffer], position: int) -> bool:
    """Write all of `buffers` from `position` on: whole blocks past the page cache, the rest into it.

    Returns False where the file system or the platform has no direct writes: nothing was written, write as usual.

    Raises:
        NoDirectWriteError: There is no descriptor for it just now.
        OSError: Some of the bytes may have been written.
    """
    direct = _open_direct(descriptor)
    if direct is None:
        return False
    try:
        return _write(descriptor, direct, buffers, position)
    finally:
        os.close(direct)


def _open_direct(descriptor: int) -> int | None:
    """Open the same file once more, whatever became of its name. Kept open it would cost a descriptor per segment."""
    if not hasattr(os, "O_DIRECT"):
        return None
    try:
        return os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
    except FileNotFoundError:
        return None  # There is no /proc.
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return None
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise NoDirectWriteError from error
        raise


def _write(descriptor: int, direct: int, buffers: Sequence[Buffer], position: int) -> bool:
    scratch = _scratch.view
    start = position - position % BLOCK_BYTES
    filled = position - start
    # What the first block holds already: it was written a moment ago, to the page cache.
    scratch[:filled] = _read_all(descriptor, filled, start)
    for buffer in buffers:
        left = memoryview(buffer)
        while left:
            part = left[: _SCRATCH_BYTES - filled]
            scratch[filled : filled + len(part)] = part
            filled += len(part)
            left = left[len(part) :]
            if filled == _SCRATCH_BYTES:
                if not _write_blocks(direct, scratch, start):
                    return False
                start, filled = start + filled, 0
    blocks = filled - filled % BLOCK_BYTES
    if blocks and not _write_blocks(direct, scratch[:blocks], start):
        return False
    _write_all(descriptor, scratch[blocks:filled], start + blocks)
    return True


def _write_blocks(direct: int, blocks: memoryview, position: int) -> bool:
    """Return False where such a write is not supported, which the first one of a file finds out."""
    written = 0
    while written < len(blocks):
        try:
            count = os.pwrite(direct, blocks[written:], position + written)
        except OSError as error:
            if error.errno in _UNSUPPORTED and written == 0:
                return False
            raise
        if count == 0 or count % BLOCK_BYTES:
            raise OSError(errno.ENOSPC, f"the disk took {written + count} of {len(blocks)} bytes")
        written += count
    return True


def _write_all(descriptor: int, data: memoryview, position: int) -> None:
    while data:
        count = os.pwrite(descriptor, data, position)
        if count == 0:
            raise OSError(errno.EIO, "the disk took no byte")
        data, position = data[count:], position + count


def _read_all(descriptor: int, size: int, position: int) -> bytes:
    data = os.pread(descriptor, size, position) if size else b""
    if len(data) != size:
        raise OSError(errno.EIO, f"{size} bytes before a write are not there")
    return data
