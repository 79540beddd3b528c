"""A bounded number of open files: those that nobody uses are closed, the longest unused first, and opened again.

    pinned   somebody reads, writes or fsyncs, or holds bytes that no fsync has covered: never closed. A descriptor
             that is opened after a failed write-back need not be told of it.
    idle     open, and nobody uses it; those that will be written again are closed last
    closed   only its path is known; the next use opens it

Safe to use from several threads. The bound is one of idle files: where all are pinned there are more of them.
"""

import contextlib
import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from runtime.files import Buffer, DirectoryLock, File, FileSystem

T = TypeVar("T")

# The process or the machine has no descriptor left.
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)

OPEN_FILES_MIN = 16
_ATTEMPTS = 4


class FileGoneError(OSError):
    """The file's name was given up (`CachedFile.give_up_name`), and it is not open any more."""


class Descriptors:
    """The descriptors of cached files: how many there are, and which may be closed.

    Attributes:
        wanted: How many files may be open together, as far as pinned ones allow.
        bound: The same as it is now: halved when the kernel refuses a descriptor, and one more with each open after.
        open_count: How many are open.
        refused: How often the kernel has refused a descriptor.
        lock: Held by whoever changes these, or a file's pins, handle or place among the idle ones.
    """

    def __init__(self, wanted: int) -> None:
        self.wanted = self.bound = max(wanted, OPEN_FILES_MIN)
        self.open_count = 0
        self.refused = 0
        self.lock = threading.Lock()
        # The longest unused first. What is written next to the second.
        self._idle: dict[CachedFile, None] = {}
        self._idle_active: dict[CachedFile, None] = {}

    @property
    def pinned_count(self) -> int:
        """How many of them somebody uses now: none of these can be closed."""
        with self.lock:
            return self.open_count - len(self._idle) - len(self._idle_active)

    def provide(self, job: Callable[[], T]) -> T:
        """Run `job`, which opens a descriptor; where there is none, close idle files and try again."""
        for attempt in range(_ATTEMPTS):
            try:
                return job()
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    raise
                if not self._shrink() or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _shrink(self) -> bool:
        """Close half of what is open, as far as it is idle; return whether a descriptor was given back."""
        with self.lock:
            self.refused += 1
            self.bound = max(self.open_count // 2, OPEN_FILES_MIN // 2)
            victims = self.taken_out(self.bound)
        _close_all(victims)
        return bool(victims)

    def open(self, job: Callable[[], File]) -> File:
        """Run `job`, which opens one more cached file, and count it.

        Raises:
            OSError: What the job raises.
        """
        with self.lock:
            victims = self.taken_out(self.bound - 1)
            self.open_count += 1
        _close_all(victims)
        try:
            handle = self.provide(job)
        except BaseException:
            with self.lock:
                self.open_count -= 1
            raise
        with self.lock:
            self.bound = min(self.bound + 1, self.wanted)
        return handle

    def taken_out(self, left: int) -> list[File]:
        """With the lock held: take idle files out until `left` are open or none is idle; the caller closes them."""
        handles = []
        while self.open_count > left and (idle := self._idle or self._idle_active):
            file = next(iter(idle))
            del idle[file]
            handles.append(file.take_handle())
        return handles

    def idle_with(self, file: "CachedFile") -> "dict[CachedFile, None]":
        """Return where `file` stands while it is idle."""
        return self._idle_active if file.is_active else self._idle


class OpenFiles:
    """A `FileSystem` whose `cached` files share descriptors, and which gives them up where any other open needs one.

    Attributes:
        descriptors: What it has open.
    """

    def __init__(self, files: FileSystem, wanted: int) -> None:
        self._files = files
        self.descriptors = Descriptors(wanted)
        self._with_descriptor = self.descriptors.provide

    def cached(self, path: str) -> "CachedFile":
        """Return the existing file `path`, which is not opened before it is used."""
        return CachedFile(self._files, self.descriptors, path)

    def create_cached(self, path: str) -> "CachedFile":
        """Create `path` and return it, pinned.

        Raises:
            OSError: Nothing was made.
        """
        handle = self.descriptors.open(lambda: self._files.open(path, create=True))
        return CachedFile(self._files, self.descriptors, path, handle)

    # -- what opens a descriptor -------------------------------------------------------------------------------------

    def hold(self, path: str) -> None:
        """Hold a directory: see `FileSystem.hold`."""
        self._with_descriptor(lambda: self._files.hold(path))

    def is_in_place(self) -> bool:
        """Return whether the name of the held directory still leads to it."""
        return self._with_descriptor(self._files.is_in_place)

    def open(self, path: str, *, create: bool = False) -> File:
        """Open `path` beside the cached files."""
        return self._with_descriptor(lambda: self._files.open(path, create=create))

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        return self._with_descriptor(lambda: self._files.listdir(path))

    def mkdir(self, path: str) -> None:
        """Create a directory, durably."""
        self._with_descriptor(lambda: self._files.mkdir(path))

    def fsync_dir(self, path: str) -> None:
        """Make the directory's entries durable."""
        self._with_descriptor(lambda: self._files.fsync_dir(path))

    def lock(self, path: str) -> DirectoryLock:
        """Take the exclusive lock file `path`."""
        return self._with_descriptor(lambda: self._files.lock(path))

    # -- what opens none ---------------------------------------------------------------------------------------------

    def path_for_others(self, path: str) -> str:
        """Return a path by which code that opens files itself finds `path`."""
        return self._files.path_for_others(path)

    def let_go(self) -> None:
        """Close what `hold` has opened."""
        self._files.let_go()

    def exists(self, path: str) -> bool:
        """Tell whether the name exists."""
        return self._files.exists(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing `target`."""
        self._files.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self._files.unlink(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        self._files.rmdir(path)

    def free_bytes(self, path: str) -> int:
        """Return the free bytes of the disk of `path`."""
        return self._files.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        """Return the size of the disk of `path`."""
        return self._files.total_bytes(path)


class CachedFile:
    """`File` whose descriptor may be closed between two uses. Made by `OpenFiles`.

    Attributes:
        is_active: It will be written again: closed after all that will not.
    """

    __slots__ = (
        *("_descriptors", "_files", "_handle", "_is_closed", "_is_nameless", "_opening", "_pins"),
        *("is_active", "path"),
    )

    def __init__(self, files: FileSystem, descriptors: Descriptors, path: str, handle: File | None = None) -> None:
        self.path = path
        self.is_active = False
        self._files = files
        self._descriptors = descriptors
        self._handle = handle
        self._pins = 0 if handle is None else 1
        self._opening = threading.Lock()
        self._is_nameless = False
        self._is_closed = False

    @property
    def is_open(self) -> bool:
        """Whether the next use opens nothing, unless it is closed meanwhile."""
        return self._handle is not None

    @property
    def is_nameless(self) -> bool:
        """Whether `give_up_name` was called."""
        return self._is_nameless

    def set_active(self, is_active: bool) -> None:
        """Say whether it will be written again."""
        descriptors = self._descriptors
        with descriptors.lock:
            was_idle = self in descriptors.idle_with(self)
            if was_idle:
                del descriptors.idle_with(self)[self]
            self.is_active = is_active
            if was_idle:
                descriptors.idle_with(self)[self] = None

    def give_up_name(self) -> None:
        """The name is about to be removed: from here on the file is not opened again, and FileGoneError raised."""
        self._is_nameless = True

    def pin(self) -> File:
        """Open it if need be, and keep it open until `unpin`; pins add up.

        Raises:
            FileGoneError: It has no name any more, and is not open or was closed for good.
            OSError: It cannot be opened, or was closed for good.
        """
        descriptors = self._descriptors
        with descriptors.lock:
            if self._is_closed and self._is_nameless:
                raise _gone(self.path)
            if self._is_closed:
                raise OSError(errno.EBADF, "the file is closed", self.path)
            self._pins += 1
            if self._handle is not None:
                if self._pins == 1:
                    del descriptors.idle_with(self)[self]
                return self._handle
        try:
            return self._reopened()
        except BaseException:
            self.unpin()
            raise

    def _reopened(self) -> File:
        descriptors = self._descriptors
        # One thread opens it; who comes meanwhile shares what it opened.
        with self._opening:
            if self._handle is None:
                try:
                    if self._is_nameless:
                        raise FileNotFoundError(errno.ENOENT, "the file was removed", self.path)
                    handle = descriptors.open(lambda: self._files.open(self.path))
                except FileNotFoundError as error:
                    if self._is_nameless:
                        raise _gone(self.path) from error
                    raise
                with descriptors.lock:
                    self._handle = handle
            return self._handle

    def unpin(self) -> None:
        """Take one `pin` back."""
        descriptors = self._descriptors
        with descriptors.lock:
            assert self._pins > 0
            self._pins -= 1
            if self._pins or self._handle is None:
                return
            if self._is_closed:
                handles = [self.take_handle()]
            else:
                descriptors.idle_with(self)[self] = None
                handles = descriptors.taken_out(descriptors.bound)
        _close_all(handles)

    def take_handle(self) -> File:
        """With the lock held: count the file as closed, and return what is to be closed."""
        handle, self._handle = self._handle, None
        assert handle is not None
        self._descriptors.open_count -= 1
        return handle

    @contextlib.contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep it open inside."""
        self.pin()
        try:
            yield
        finally:
            self.unpin()

    def close(self) -> None:
        """Close it for good, at once or when the last one who has pinned it is done."""
        descriptors = self._descriptors
        with descriptors.lock:
            self._is_closed = True
            if self._pins or self._handle is None:
                return
            del descriptors.idle_with(self)[self]
            handle = self.take_handle()
        handle.close()

    # -- File ----------------------------------------------------------------------------------------------------

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all of `buffers` from `position` on."""
        handle = self.pin()
        try:
            handle.pwritev(buffers, position)
        finally:
            self.unpin()

    def append(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all of `buffers` at the end of what was written; the caller has pinned it."""
        assert self._pins > 0
        assert self._handle is not None
        self._handle.append(buffers, position)

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`."""
        handle = self.pin()
        try:
            return handle.pread(size, position)
        finally:
            self.unpin()

    def will_need(self, size: int, position: int) -> None:
        """Let the kernel begin to read these bytes."""
        handle = self.pin()
        try:
            handle.will_need(size, position)
        finally:
            self.unpin()

    def send(self, descriptor: int, size: int, position: int) -> int:
        """Hand a socket up to `size` bytes from `position`."""
        handle = self.pin()
        try:
            return handle.send(descriptor, size, position)
        finally:
            self.unpin()

    def send_cached(self, descriptor: int, size: int, position: int) -> int:
        """As `send`, without waiting for the disk: 0 where the file is not open, or the bytes are not in memory."""
        if not self.is_open:
            return 0
        handle = self.pin()
        try:
            return handle.send(descriptor, size, position) if handle.is_cached(size, position) else 0
        finally:
            self.unpin()

    def pread_cached(self, size: int, position: int) -> bytes:
        """As `pread`, without waiting for the disk: nothing where the file is not open, or the bytes not in memory."""
        if not self.is_open:
            return b""
        handle = self.pin()
        try:
            return handle.pread(size, position) if handle.is_cached(size, position) else b""
        finally:
            self.unpin()

    def is_cached(self, size: int, position: int) -> bool:
        """Whether these bytes are in memory now."""
        handle = self.pin()
        try:
            return handle.is_cached(size, position)
        finally:
            self.unpin()

    def fsync(self) -> None:
        """Make what was written durable; whoever wrote has kept it pinned since."""
        handle = self.pin()
        try:
            handle.fsync()
        finally:
            self.unpin()

    def truncate(self, size: int) -> None:
        """Cut or extend the file."""
        handle = self.pin()
        try:
            handle.truncate(size)
        finally:
            self.unpin()

    def size(self) -> int:
        """Return the file's size."""
        handle = self.pin()
        try:
            return handle.size()
        finally:
            self.unpin()


def _close_all(handles: list[File]) -> None:
    for handle in handles:
        # Nothing that was not fsynced is in it, and its descriptor is gone whatever the kernel says.
        with contextlib.suppress(OSError):
            handle.close()


def _gone(path: str) -> FileGoneError:
    return FileGoneError(errno.ENOENT, "the file was removed", path)
