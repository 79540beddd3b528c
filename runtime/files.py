"""Bytes on disk. Every method here may block: call it through `Workers.run`.

The simulator's implementation (tests/simulation/disk.py) passes the same contract suite
(tests/contract/test_files.py): un-fsynced bytes die at a crash, a file's *name* survives only once its
directory was fsynced, and an fsync that failed must never be retried and believed.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from typing import Protocol

from runtime.direct_io import DIRECT_BYTES_MIN, write_direct

Buffer = bytes | bytearray | memoryview

# How much longer than it need be `append` makes a file: as long again, within these bounds.
_AHEAD_BYTES_MIN, _AHEAD_BYTES_MAX = 16 * 1024, 256 * 1024

# Linux's IOV_MAX: one writev takes no more buffers.
_IOV_MAX = 1024


class File(Protocol):
    """One open file; positions and sizes in bytes. Safe to read and write at once from different threads."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all of `buffers` back to back from `position` on.

        Raises:
            OSError: Some prefix of the bytes may have been written; the caller cuts the file back.
        """
        ...

    def append(self, buffers: Sequence[Buffer], position: int) -> None:
        """Like `pwritev` at the end of what was written, for a file that grows by many writes.

        The file may become longer than that: the bytes behind are zero until they are written, and `truncate` takes
        them back.
        """
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def fsync(self) -> None:
        """Make what was written before the call durable.

        Raises:
            OSError: What was written since the last success is in an unknown state; do not retry and believe.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut (or extend with zeros) the file to `size` bytes."""
        ...

    def size(self) -> int:
        """Return the file's size."""
        ...

    def close(self) -> None:
        """Release the file; nothing is flushed by it."""
        ...


class DirectoryLock(Protocol):
    """Held until released or until the process ends."""

    def release(self) -> None:
        """Give the lock back."""
        ...


class FileSystem(Protocol):
    """A node's view of its disk. Paths are strings; `/` separates; parents must exist except for `mkdir`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open `path` for reading and writing. With `create`, it must not exist yet (FileExistsError)."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory has that name."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def mkdir(self, path: str) -> None:
        """Create a directory and its missing parents; each new name's parent directory is fsynced."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing `target`; durable only after `fsync_dir`."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file; durable only after `fsync_dir`."""
        ...

    def rmdir(self, path: str) -> None:
        """Remove an empty directory; durable only after `fsync_dir` of its parent."""
        ...

    def fsync_dir(self, path: str) -> None:
        """Make creations, renames and removals in a directory durable."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return the bytes an unprivileged writer may still use on the disk of `path`."""
        ...

    def total_bytes(self, path: str) -> int:
        """Return the size of the disk of `path`, used or not."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Take the exclusive lock file `path`.

        Raises:
            BlockingIOError: Another process holds it.
        """
        ...


class OsFile:
    """`File` on a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._has_direct = True
        # Up to where `append` need not ask for blocks.
        self._allocated = 0

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all of `buffers` from `position` on; short writes are continued."""
        size = sum(map(len, buffers))
        if size >= DIRECT_BYTES_MIN and self._has_direct:
            self._has_direct = write_direct(self._descriptor, buffers, position)
            if self._has_direct:
                return
        for first in range(0, len(buffers), _IOV_MAX):
            group = list(buffers[first : first + _IOV_MAX])
            wanted = sum(map(len, group))
            written = os.pwritev(self._descriptor, group, position)
            if written != wanted:
                self._continue(b"".join(group), written, position)
            position += wanted

    def _continue(self, data: bytes, written: int, position: int) -> None:
        view = memoryview(data)
        while written < len(view):
            count = os.pwrite(self._descriptor, view[written:], position + written)
            if count == 0:
                raise OSError(errno.EIO, "the disk took no byte")
            written += count

    def append(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all of `buffers` from `position` on, into blocks that are there already.

        An fsync that has a new size or new blocks to write as well takes half as long again (docs/performance.md).
        """
        end = position + sum(map(len, buffers))
        if end > self._allocated and end - position < DIRECT_BYTES_MIN:
            self._allocate(position, end)
        self.pwritev(buffers, position)

    def _allocate(self, position: int, end: int) -> None:
        ahead = min(max(end, _AHEAD_BYTES_MIN), _AHEAD_BYTES_MAX)
        # Where it is refused the file grows as it is written, and the next try comes as late as after a success.
        self._allocated = end + ahead
        with contextlib.suppress(OSError, AttributeError):
            os.posix_fallocate(self._descriptor, position, end + ahead - position)

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes; fewer only at the end of the file."""
        data = os.pread(self._descriptor, size, position)
        while len(data) < size:
            more = os.pread(self._descriptor, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def fsync(self) -> None:
        """Make the file's bytes and size durable (fdatasync covers a changed size)."""
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        """Cut or extend the file."""
        os.ftruncate(self._descriptor, size)
        self._allocated = size

    def size(self) -> int:
        """Return the file's size."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class OsDirectoryLock:
    """A `flock` on a file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._descriptor)


class OsFileSystem:
    """`FileSystem` of the machine."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open `path` for reading and writing; with `create` it must be new."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        return OsFile(os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        """Tell whether the name exists."""
        return os.path.exists(path)

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(os.listdir(path))

    def mkdir(self, path: str) -> None:
        """Create a directory and its missing parents, durably."""
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path) or "."
        for each in reversed(missing):
            os.mkdir(each)
            self.fsync_dir(os.path.dirname(each) or ".")

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing `target`."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def fsync_dir(self, path: str) -> None:
        """Make the directory's entries durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        """Return the free bytes of the disk that holds `path`."""
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        """Return the size of the disk that holds `path`."""
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def lock(self, path: str) -> DirectoryLock:
        """Take the exclusive lock file `path`."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return OsDirectoryLock(descriptor)
