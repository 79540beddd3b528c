"""A disk in memory with a page cache, a durable image, and what lies between them at a power loss.

The disk outlives processes: a `SimFileSystem` is one process's view of it and dies with the process.
"""

import errno
import os
import posixpath
import random
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from runtime.files import Buffer
from tests.simulation.world.trace import Trace
from tests.simulation.world.virtual_loop import VirtualLoop

Operation = Literal["write", "read", "fsync", "fsync_dir", "open", "rename", "unlink", "truncate"]

_SECTOR = 512
_AHEAD_BYTES = 256
_DEFAULT_CAPACITY = 1 << 40


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


class Inode:
    """A file's bytes: `data` is the page cache, `durable` the platter, `pending` what no fsync has covered."""

    __slots__ = ("data", "durable", "has_rotted", "pending")

    def __init__(self) -> None:
        self.has_rotted = False
        self.data = bytearray()
        self.durable = bytearray()
        # (position, bytes) of a write, (size, None) of a truncation.
        self.pending: list[tuple[int, bytes | None]] = []

    def write(self, position: int, data: bytes) -> None:
        _overwrite(self.data, position, data)
        self.pending.append((position, data))

    def flip(self, position: int, bit: int) -> None:
        """Flip a bit in the cache and on the platter, wherever the byte is there."""
        for content in (self.data, self.durable):
            if position < len(content):
                content[position] ^= 1 << bit

    def truncate(self, size: int) -> None:
        _resize(self.data, size)
        self.pending.append((size, None))

    def sync(self) -> None:
        for position, data in self.pending:
            if data is None:
                _resize(self.durable, position)
            else:
                _overwrite(self.durable, position, data)
        self.pending.clear()

    def lose_power(self, rng: random.Random, counts: Counter[str]) -> None:
        """Each un-fsynced operation survives, is lost, or (a write) is torn at a sector boundary."""
        for position, data in self.pending:
            fate = rng.choice(("survives", "lost", "torn", "zeros"))
            if data is not None and fate != "survives":
                counts["writes torn with power" if fate == "torn" else "bytes lost with power"] += 1
            if data is None:
                if fate != "lost":
                    _resize(self.durable, position)
            elif fate == "survives":
                _overwrite(self.durable, position, data)
            elif fate == "torn":
                # Sector boundaries of the file, not of the write; the first one past `position` or later.
                first = position // _SECTOR + 1
                cut = rng.randrange(first, max(first, (position + len(data)) // _SECTOR) + 1) * _SECTOR
                _overwrite(self.durable, position, data[: cut - position] if cut < position + len(data) else b"")
            elif fate == "zeros" and position + len(data) > len(self.durable):
                # The new size reached the disk, the data did not.
                _resize(self.durable, position + len(data))
        self.pending.clear()
        self.data = bytearray(self.durable)


def _overwrite(image: bytearray, position: int, data: bytes) -> None:
    if data:
        if position > len(image):
            _resize(image, position)
        image[position : position + len(data)] = data


def _resize(image: bytearray, size: int) -> None:
    if size < len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))


class Directory:
    """Names: `entries` as processes see them, `durable` after a power loss, `pending` operations in order."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.durable: dict[str, Inode | Directory] = {}
        # Each operation sets some names (None removes): a rename within the directory is one operation.
        self.pending: list[dict[str, Inode | Directory | None]] = []

    def change(self, names: dict[str, "Inode | Directory | None"]) -> None:
        _apply(self.entries, names)
        self.pending.append(names)

    def sync(self) -> None:
        for names in self.pending:
            _apply(self.durable, names)
        self.pending.clear()

    def lose_power(self, rng: random.Random, counts: Counter[str]) -> None:
        """Any of the un-fsynced operations survive, in their order; then the same below."""
        likelihood = rng.choice((0.0, 0.5, 0.5, 1.0))
        kept = [rng.random() < likelihood for _ in self.pending]
        counts["names lost with power"] += not all(kept)
        counts["later names survive earlier ones"] += any(not earlier and later for earlier, later in pairwise(kept))
        self.pending = [names for names, is_kept in zip(self.pending, kept, strict=True) if is_kept]
        self.sync()
        self.entries = dict(self.durable)
        for entry in self.entries.values():
            entry.lose_power(rng, counts)

    def size(self) -> int:
        return sum(len(each.data) if isinstance(each, Inode) else each.size() for each in self.entries.values())


def _apply(entries: dict[str, Inode | Directory], names: dict[str, Inode | Directory | None]) -> None:
    for name, entry in names.items():
        if entry is None:
            entries.pop(name, None)
        else:
            entries[name] = entry


_OF_NAMES = ("create", "mkdir", "rename to", "unlink", "rmdir", "fsync_dir")


class SimDisk:
    """One node's disk.

    Faults (set them at any time): `probability[operation]` in [0, 1] of EIO, `fail_next`, `capacity` in bytes,
    `slow_factor` (>= 0) on every job's duration (read by SimWorkers), `no_descriptor`, the probability in [0, 1] of
    EMFILE for whatever opens a descriptor.

    Attributes:
        counts: What has gone wrong, how often.
        runs_now: Small appends run on the loop, as in production (read by SimWorkers); stories do without.
        allocates: `append` makes files longer ahead. Stories that count bytes do without; of the drawn runs some do.
    """

    def __init__(self, node_id: int, rng: random.Random, trace: Trace) -> None:
        self.root = Directory()
        self.capacity = _DEFAULT_CAPACITY
        self.slow_factor = 1.0
        self.allocates = False
        self.runs_now = False
        self.no_descriptor = 0.0
        self.probability: dict[Operation, float] = {}
        self.used = 0
        self.counts: Counter[str] = Counter()
        self.node_id = node_id
        self.rng = rng
        self.locks: dict[str, SimDirectoryLock] = {}
        self._trace = trace
        self._fail_next: list[tuple[Operation, int, str]] = []
        # How often a name was made, renamed, removed or made durable.
        self.names_changed = 0

    def fail_next(self, operation: Operation, *, error: int = errno.EIO, path_part: str = "") -> None:
        """Let the next `operation` on a path that contains `path_part` fail; calls add up."""
        self._fail_next.append((operation, error, path_part))

    def clear_faults(self) -> None:
        """No more errors and full speed; the capacity stays."""
        self._fail_next.clear()
        self.probability.clear()
        self.slow_factor = 1.0
        self.no_descriptor = 0.0

    def check_descriptor(self, path: str) -> None:
        """Raise EMFILE if it is due for a call that opens a descriptor."""
        if self.no_descriptor and self.rng.random() < self.no_descriptor:
            self.counts["descriptors refused"] += 1
            self.record("descriptor refused", path, errno.EMFILE)
            raise _error(errno.EMFILE, path)

    def check(self, operation: Operation, path: str) -> None:
        """Raise the OSError that is due for `operation`, if one is."""
        for index, (wanted, error, path_part) in enumerate(self._fail_next):
            if wanted == operation and path_part in path:
                del self._fail_next[index]
                self.counts[f"{operation} failed"] += 1
                self.record(f"{operation} failed", path, error)
                raise _error(error, path)
        chance = self.probability.get(operation)
        if chance and self.rng.random() < chance:
            self.counts[f"{operation} failed"] += 1
            self.record(f"{operation} failed", path, errno.EIO)
            raise _error(errno.EIO, path)

    def record(self, operation: str, path: str, *detail: int) -> None:
        """Trace an effect."""
        self.names_changed += operation.startswith(_OF_NAMES)
        self._trace.record("disk", self.node_id, (operation, path, *detail))

    def lose_power(self) -> None:
        """Keep what is durable and a drawn part of the rest."""
        self.root.lose_power(self.rng, self.counts)
        self.used = self.root.size()
        self.record("power lost", "/", self.used)

    def move(self, source: str, target: str) -> None:
        """Rename a directory behind the back of the processes, durably, as an operator or a lost mount does.

        An empty directory that has the name `target` is replaced.
        """
        (*above, name), (*target_above, target_name) = _parts(source), _parts(target)
        parent, target_parent = self._directory_at(tuple(above)), self._directory_at(tuple(target_above))
        moved = parent.entries[name]
        for directory, change in ((parent, {name: None}), (target_parent, {target_name: moved})):
            directory.change(change)
            directory.sync()
        self.record(f"moved to {target}", source)

    def make_empty(self, path: str) -> None:
        """Make a directory behind the back of the processes, durably."""
        *above, name = _parts(path)
        parent = self._directory_at(tuple(above))
        parent.change({name: Directory()})
        parent.sync()

    def names(self, path: str) -> list[str]:
        """Return what lies at a path for whoever looks by the name: nothing where no directory is."""
        try:
            return sorted(self._directory_at(_parts(path)).entries)
        except (KeyError, AssertionError):
            return []

    def _directory_at(self, parts: tuple[str, ...]) -> Directory:
        entry: Inode | Directory = self.root
        for name in parts:
            assert isinstance(entry, Directory)
            entry = entry.entries[name]
        assert isinstance(entry, Directory)
        return entry

    def rot(self, path: str, position: int, bit: int = 0) -> bool:
        """Flip a bit of a durable byte of a file, in the cache and on the platter; return whether there is such a one."""
        inode = self.inode(path)
        if inode is None or position >= min(len(inode.durable), len(inode.data)):
            return False  # It has not reached the platter, or is being replaced.
        inode.flip(position, bit)
        inode.has_rotted = True
        self.counts["bits rotted"] += 1
        self.record("rot", path, position, bit)
        return True

    def inode(self, path: str) -> Inode | None:
        """Return the file of that name, as processes see it; None if there is none."""
        entry: Inode | Directory | None = self.root
        for part in _parts(path):
            entry = entry.entries.get(part) if isinstance(entry, Directory) else None
        return entry if isinstance(entry, Inode) else None

    def durable_bytes(self, path: str) -> bytes | None:
        """Return what a power loss that keeps nothing un-fsynced leaves of a file; None if no name leads there."""
        entry: Inode | Directory | None = self.root
        for name in _parts(path):
            entry = entry.durable.get(name) if isinstance(entry, Directory) else None
        return bytes(entry.durable) if isinstance(entry, Inode) else None


# The same paths are asked for again and again: by each write, fsync and look of an observer.
@lru_cache(maxsize=4096)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in posixpath.normpath(f"/{path}").split("/") if part)


class SimFile:
    """`runtime.files.File` of one process."""

    __slots__ = ("_closed", "_disk", "_files", "_inode", "path")

    def __init__(self, files: "SimFileSystem", inode: Inode, path: str) -> None:
        self.path = path
        self._files = files
        self._disk = files.disk
        self._inode = inode
        self._closed = False

    def _check_open(self) -> None:
        if self._closed or self._files.dead:
            raise _error(errno.EBADF, self.path)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        self._check_open()
        self._disk.check("write", self.path)
        data = b"".join(buffers)
        room = self._disk.capacity - self._disk.used + len(self._inode.data) - position
        short = len(data) > room
        if short:
            data = data[: max(0, room)]
        before = len(self._inode.data)
        if data:
            self._inode.write(position, data)
        self._disk.used += len(self._inode.data) - before
        self._disk.record("write", self.path, position, len(data))
        if short:
            self._disk.counts["full"] += 1
            raise _error(errno.ENOSPC, self.path)

    def append(self, buffers: Sequence[Buffer], position: int) -> None:
        self._check_open()
        end = position + sum(map(len, buffers))
        longer = (end // _AHEAD_BYTES + 2) * _AHEAD_BYTES
        growth = longer - len(self._inode.data)
        # In small steps, so that files are often met that are longer than what was written.
        has_room = growth <= self._disk.capacity - self._disk.used
        if self._disk.allocates and end > len(self._inode.data) and has_room:
            self._inode.truncate(longer)
            self._disk.used += growth
        self.pwritev(buffers, position)

    def pread(self, size: int, position: int) -> bytes:
        self._check_open()
        self._disk.check("read", self.path)
        return bytes(self._inode.data[position : position + size])

    def will_need(self, size: int, position: int) -> None:
        """Nothing is simulated of it."""

    def send(self, descriptor: int, size: int, position: int) -> int:
        # Nothing simulated has such a socket; the contract's tests do.
        data = self.pread(size, position)
        return os.write(descriptor, data) if data else 0

    def is_cached(self, size: int, position: int) -> bool:
        # Reads draw their faults and take their time.
        return False

    def fsync(self) -> None:
        self._check_open()
        try:
            self._disk.check("fsync", self.path)
        except OSError:
            # Linux marks the pages clean: readable, never written, and the next fsync succeeds. Sizes are metadata:
            # the journal keeps them.
            self._inode.pending = [(size, data) for size, data in self._inode.pending if data is None]
            raise
        self._inode.sync()
        self._disk.record("fsync", self.path, len(self._inode.durable))

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.check("truncate", self.path)
        growth = size - len(self._inode.data)
        if growth > self._disk.capacity - self._disk.used:
            raise _error(errno.ENOSPC, self.path)
        self._inode.truncate(size)
        self._disk.used += growth
        self._disk.record("truncate", self.path, size)

    def size(self) -> int:
        self._check_open()
        return len(self._inode.data)

    def close(self) -> None:
        self._check_open()
        self._closed = True


class ObservedFile:
    """A file for an observer, whose reads meet no fault and draw none."""

    def __init__(self, inode: Inode) -> None:
        self._inode = inode

    def pread(self, size: int, position: int) -> bytes:
        return bytes(self._inode.data[position : position + size])


class SimDirectoryLock:
    """`runtime.files.DirectoryLock` of one process."""

    def __init__(self, files: "SimFileSystem", path: str) -> None:
        self.files = files
        self._path = path

    def release(self) -> None:
        locks = self.files.disk.locks
        if locks.get(self._path) is self:
            del locks[self._path]


class SimFileSystem:
    """`runtime.files.FileSystem` of one process; after the process's death every call fails with EBADF."""

    def __init__(self, disk: SimDisk, loop: VirtualLoop) -> None:
        self.disk = disk
        self._loop = loop
        # What `hold` has opened, and the parts of its path.
        self._held: tuple[tuple[str, ...], Directory] | None = None

    @property
    def dead(self) -> bool:
        return self._loop.dead

    def hold(self, path: str) -> None:
        assert self._held is None
        self._held = _parts(path), self._directory(_parts(path), path)

    def is_in_place(self) -> bool:
        assert self._held is not None
        parts, held = self._held
        entry: Inode | Directory | None = self.disk.root
        for name in parts:
            entry = entry.entries.get(name) if isinstance(entry, Directory) else None
        return entry is held

    def path_for_others(self, path: str) -> str:
        return path

    def let_go(self) -> None:
        self._held = None

    def seen_from(self, parts: tuple[str, ...]) -> tuple[tuple[str, ...], Directory]:
        """Return what is left of a path, and from where: the held directory, or the root."""
        if self._held is not None:
            held, directory = self._held
            if parts[: len(held)] == held:
                return parts[len(held) :], directory
        return parts, self.disk.root

    def inode(self, path: str) -> Inode | None:
        """Return the file that this process finds by a path, for observers; None if there is none."""
        parts, start = self.seen_from(_parts(path))
        entry: Inode | Directory | None = start
        for name in parts:
            entry = entry.entries.get(name) if isinstance(entry, Directory) else None
        return entry if isinstance(entry, Inode) else None

    def durable_inode(self, path: str) -> Inode | None:
        """Return the file that it would find below the same directory after a power loss; None if there is none."""
        parts, start = self.seen_from(_parts(path))
        entry: Inode | Directory | None = start
        for name in parts:
            entry = entry.durable.get(name) if isinstance(entry, Directory) else None
        return entry if isinstance(entry, Inode) else None

    def _find(self, parts: tuple[str, ...], path: str) -> Inode | Directory:
        if self.dead:
            raise _error(errno.EBADF, path)
        parts, start = self.seen_from(parts)
        entry: Inode | Directory = start
        for name in parts:
            if not isinstance(entry, Directory):
                raise _error(errno.ENOTDIR, path)
            found = entry.entries.get(name)
            if found is None:
                raise _error(errno.ENOENT, path)
            entry = found
        return entry

    def _directory(self, parts: tuple[str, ...], path: str) -> Directory:
        entry = self._find(parts, path)
        if not isinstance(entry, Directory):
            raise _error(errno.ENOTDIR, path)
        return entry

    def _parent(self, path: str) -> tuple[Directory, str]:
        parts = _parts(path)
        return self._directory(parts[:-1], path), parts[-1]

    def open(self, path: str, *, create: bool = False) -> SimFile:
        parent, name = self._parent(path)
        entry = parent.entries.get(name)
        self.disk.check_descriptor(path)
        self.disk.check("open", path)
        if create:
            if entry is not None:
                raise _error(errno.EEXIST, path)
            entry = Inode()
            parent.change({name: entry})
            self.disk.record("create", path)
        if entry is None:
            raise _error(errno.ENOENT, path)
        if isinstance(entry, Directory):
            raise _error(errno.EISDIR, path)
        return SimFile(self, entry, path)

    def exists(self, path: str) -> bool:
        try:
            self._find(_parts(path), path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def listdir(self, path: str) -> list[str]:
        self.disk.check_descriptor(path)
        return sorted(self._directory(_parts(path), path).entries)

    def mkdir(self, path: str) -> None:
        parent, name = self._parent(path)
        below = parent.entries.get(name)
        if below is None:
            parent.change({name: Directory()})
            parent.sync()
            self.disk.record("mkdir", path)
        elif not isinstance(below, Directory):
            raise _error(errno.EEXIST, path)

    def rename(self, source: str, target: str) -> None:
        source_parent, source_name = self._parent(source)
        target_parent, target_name = self._parent(target)
        entry = self._find(_parts(source), source)
        self.disk.check("rename", target)
        replaced = target_parent.entries.get(target_name)
        if replaced is entry:
            return
        if isinstance(replaced, Directory) and (isinstance(entry, Inode) or replaced.entries):
            raise _error(errno.EISDIR if isinstance(entry, Inode) else errno.ENOTEMPTY, target)
        if isinstance(entry, Directory) and isinstance(replaced, Inode):
            raise _error(errno.ENOTDIR, target)
        if isinstance(replaced, Inode):
            self.disk.used -= len(replaced.data)
        if source_parent is target_parent:
            source_parent.change({source_name: None, target_name: entry})
        else:
            # A journal moves a name as one transaction; here the new name is durable before the old one goes.
            target_parent.change({target_name: entry})
            target_parent.sync()
            source_parent.change({source_name: None})
        self.disk.record(f"rename to {target}", source)

    def unlink(self, path: str) -> None:
        parent, name = self._parent(path)
        entry = self._find(_parts(path), path)
        if isinstance(entry, Directory):
            raise _error(errno.EISDIR, path)
        self.disk.check("unlink", path)
        self.disk.used -= len(entry.data)
        parent.change({name: None})
        self.disk.record("unlink", path)

    def rmdir(self, path: str) -> None:
        parent, name = self._parent(path)
        if self._directory(_parts(path), path).entries:
            raise _error(errno.ENOTEMPTY, path)
        parent.change({name: None})
        self.disk.record("rmdir", path)

    def fsync_dir(self, path: str) -> None:
        directory = self._directory(_parts(path), path)
        self.disk.check_descriptor(path)
        self.disk.check("fsync_dir", path)
        directory.sync()
        self.disk.record("fsync_dir", path)

    def free_bytes(self, path: str) -> int:
        self._find(_parts(path), path)
        return max(0, self.disk.capacity - self.disk.used)

    def total_bytes(self, path: str) -> int:
        self._find(_parts(path), path)
        return self.disk.capacity

    def lock(self, path: str) -> SimDirectoryLock:
        parent, name = self._parent(path)
        if name not in parent.entries:
            parent.change({name: Inode()})
        holder = self.disk.locks.get(path)
        if holder is not None and not holder.files.dead:
            raise _error(errno.EWOULDBLOCK, path)
        self.disk.locks[path] = SimDirectoryLock(self, path)
        return self.disk.locks[path]
