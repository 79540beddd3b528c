"""Bytes on disk. Every method here may block: call it through `Workers.run`.

The simulator's implementation (tests/simulation/disk.py) passes the same contract suite
(tests/contract/test_files.py): un-fsynced bytes die at a crash, a file's *name* survives only once its
directory was fsynced, and an fsync that failed must never be retried and believed.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.direct_io import DIRECT_BYTES_MIN, NoDirectWriteError, write_direct
from runtime.page_cache import is_cached

Buffer = bytes | bytearray | memoryview

# How much longer than it need be `append` makes a file: as long again, within these bounds.
_AHEAD_BYTES_MIN, _AHEAD_BYTES_MAX = 16 * 1024, 256 * 1024

# Records are nobody else's business.
_DIRECTORY_MODE, _FILE_MODE = 0o700, 0o600
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

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

    def will_need(self, size: int, position: int) -> None:
        """Let the kernel begin to read these bytes into its page cache; they may end behind the file."""
        ...

    def send(self, descriptor: int, size: int, position: int) -> int:
        """Hand a socket that does not block up to `size` bytes from `position`; return how many it took.

        0 only at the end of the file.

        Raises:
            BlockingIOError: It takes nothing now.
            OSError: The socket has failed, or the disk.
        """
        ...

    def is_cached(self, size: int, position: int) -> bool:
        """Whether these bytes are in memory now, so that sending them waits for no disk. False where nobody knows."""
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
    """A node's view of its disk. Paths are strings; `/` separates; parents must exist.

    What is made is for the owner alone: directories 0700, files 0600.
    """

    def hold(self, path: str) -> None:
        """Open the directory `path`: from now on it, and what lies below it, is found through that descriptor.

        So nothing is ever made in, read from or asked of another directory that takes its name; where it is moved, its
        files go along. One per process; no other call may run meanwhile.
        """
        ...

    def is_in_place(self) -> bool:
        """Return whether the name of the held directory still leads to it.

        Raises:
            OSError: The disk does not tell.
        """
        ...

    def path_for_others(self, path: str) -> str:
        """Return a path by which code that opens files itself finds `path`: through the held directory, too."""
        ...

    def let_go(self) -> None:
        """Close what `hold` has opened, once no other call runs any more; does nothing if nothing is held."""
        ...

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
        """Create a directory, durably, unless it exists; its parent must exist (FileNotFoundError)."""
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
            # Without a descriptor for it, this one write goes the usual way.
            with contextlib.suppress(NoDirectWriteError):
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

    def will_need(self, size: int, position: int) -> None:
        """A hint, which the kernel may ignore."""
        with contextlib.suppress(OSError, AttributeError):
            os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_WILLNEED)

    def send(self, descriptor: int, size: int, position: int) -> int:
        """Let the kernel copy from the page cache to the socket."""
        return os.sendfile(descriptor, self._descriptor, position, size)

    def is_cached(self, size: int, position: int) -> bool:
        """Ask the kernel."""
        return is_cached(self._descriptor, size, position)

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


@dataclass(frozen=True, slots=True)
class _HeldDirectory:
    path: str
    descriptor: int


class OsFileSystem:
    """`FileSystem` of the machine."""

    _held: _HeldDirectory | None = None

    def hold(self, path: str) -> None:
        """Open the directory and find what lies below it through its descriptor."""
        assert self._held is None
        self._held = _HeldDirectory(path.rstrip("/"), os.open(path, _DIRECTORY))

    def is_in_place(self) -> bool:
        """Compare device and inode of the name with those of the descriptor."""
        assert self._held is not None
        try:
            named = os.stat(self._held.path or "/")
        except (FileNotFoundError, NotADirectoryError):
            return False
        own = os.fstat(self._held.descriptor)
        return (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)

    def path_for_others(self, path: str) -> str:
        """Return the path through /proc, which leads through the descriptor; as it is where there is no /proc."""
        name, directory = self._find(path)
        through = f"/proc/self/fd/{directory}"
        return f"{through}/{name}" if directory is not None and os.path.isdir(through) else path

    def let_go(self) -> None:
        """Close the held directory."""
        if self._held is not None:
            os.close(self._held.descriptor)
            self._held = None

    def _find(self, path: str) -> tuple[str, int | None]:
        """Return a path and the descriptor that it is relative to: what every call here gives to the kernel."""
        held = self._held
        if held is not None:
            if path.rstrip("/") == held.path:
                return ".", held.descriptor
            if path.startswith(f"{held.path}/"):
                return path[len(held.path) :].lstrip("/"), held.descriptor
        return path, None

    def open(self, path: str, *, create: bool = False) -> File:
        """Open `path` for reading and writing; with `create` it must be new."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        name, directory = self._find(path)
        return OsFile(os.open(name, flags, _FILE_MODE, dir_fd=directory))

    def exists(self, path: str) -> bool:
        """Tell whether the name exists."""
        name, directory = self._find(path)
        try:
            os.stat(name, dir_fd=directory)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        name, directory = self._find(path)
        # Never the held descriptor itself: two threads that list it would share one position.
        descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def mkdir(self, path: str) -> None:
        """Create a directory unless it exists, durably."""
        name, directory = self._find(path)
        try:
            os.mkdir(name, _DIRECTORY_MODE, dir_fd=directory)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=directory).st_mode):
                raise
            return
        self.fsync_dir(os.path.dirname(path.rstrip("/")) or ".")

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing `target`."""
        (name, directory), (target_name, target_directory) = self._find(source), self._find(target)
        os.replace(name, target_name, src_dir_fd=directory, dst_dir_fd=target_directory)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        name, directory = self._find(path)
        os.unlink(name, dir_fd=directory)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        name, directory = self._find(path)
        os.rmdir(name, dir_fd=directory)

    def fsync_dir(self, path: str) -> None:
        """Make the directory's entries durable."""
        with self._opened_directory(path) as descriptor:
            os.fsync(descriptor)

    @contextlib.contextmanager
    def _opened_directory(self, path: str) -> Iterator[int]:
        name, directory = self._find(path)
        if name == "." and directory is not None:
            yield directory
            return
        descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        """Return the free bytes of the disk that holds `path`."""
        with self._opened_directory(path) as descriptor:
            status = os.fstatvfs(descriptor)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        """Return the size of the disk that holds `path`."""
        with self._opened_directory(path) as descriptor:
            status = os.fstatvfs(descriptor)
        return status.f_blocks * status.f_frsize

    def lock(self, path: str) -> DirectoryLock:
        """Take the exclusive lock file `path`."""
        name, directory = self._find(path)
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE, dir_fd=directory)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return OsDirectoryLock(descriptor)
