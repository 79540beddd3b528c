"""The file system of the machine without what changes it.

Files are opened for reading only, so the kernel refuses a write too. Where it lets us, a read leaves no access time.
"""

import errno
import os
import stat
from typing import NoReturn

from runtime.files import DirectoryLock, File, OsFile, OsFileSystem

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


class ReadOnlyFiles(OsFileSystem):
    """`FileSystem` whose calls that would change anything raise EROFS."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a regular file for reading.

        Raises:
            OSError: It is not there, not a regular file, or not ours to read.
        """
        if create:
            _refuse(path)
        # O_NONBLOCK: nobody waits for the writer of a pipe that has the name of a segment.
        descriptor = open_quietly(path, _FLAGS)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", path)
        except BaseException:
            os.close(descriptor)
            raise
        return OsFile(descriptor)

    def mkdir(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        """Refuse."""
        _refuse(source)

    def unlink(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def rmdir(self, path: str) -> None:
        """Refuse."""
        _refuse(path)

    def fsync_dir(self, path: str) -> None:
        """Refuse: nothing was changed that could be made durable."""
        _refuse(path)

    def lock(self, path: str) -> DirectoryLock:
        """Refuse: a broker that starts meanwhile must find its lock free."""
        _refuse(path)


def open_quietly(path: str, flags: int) -> int:
    """Open a file without a trace in its access time; only its owner and root may ask for that.

    Raises:
        OSError: It cannot be opened.
    """
    try:
        return os.open(path, flags | os.O_NOATIME)
    except PermissionError:
        return os.open(path, flags)


def _refuse(path: str) -> NoReturn:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
