"""What tests of the log share: entries, a disk that fails chosen calls, workers whose jobs can be held."""

import asyncio
import errno
import os
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import crc32c

from model.control_batch import NO_PREPARE, Marker, MarkerType, encode_marker
from model.ids import DirectoryId, GroupId, Index, Offset, Term
from model.record_batch import stamp
from runtime.environment import Environment
from runtime.files import Buffer, DirectoryLock, File, OsFileSystem
from runtime.network import OsNetwork
from runtime.rng import Rng
from runtime.workers import Pool
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError
from storage.log import Log
from storage.options import LogIdentity, LogOptions
from storage.segment import SegmentView, scan

T = TypeVar("T")

IDENTITY = LogIdentity(GroupId("0123-7"), DirectoryId("here"))
BATCH_HEADER_BYTES = 61


def batch(base_offset: int, records: int, timestamp: int, size: int) -> bytes:
    """A v2 batch as the log sees one; the records are filler."""
    covered = struct.pack(">hiqqqhii", 0, records - 1, timestamp, timestamp, -1, -1, -1, records)
    covered += bytes(position * 7 % 251 for position in range(size))
    length = 9 + len(covered)
    return struct.pack(">qiibI", base_offset, length, 0, 2, crc32c.crc32c(covered)) + covered


@dataclass(frozen=True)
class Spec:
    """What a test says about an entry; index and offset come from where it is appended."""

    term: int = 1
    records: int = 1
    timestamp: int = 1000
    size: int = 20
    kind: EntryKind = EntryKind.DATA
    marker: Marker | None = None


def ends(producer_id: int, first_offset: int, how: MarkerType = MarkerType.ABORT, term: int = 1) -> Spec:
    """The marker of a transaction that begins at `first_offset`."""
    return Spec(term=term, marker=Marker(producer_id, 0, how, 0, first_offset, NO_PREPARE))


def barrier(term: int) -> Spec:
    return Spec(term=term, records=0, size=0, kind=EntryKind.BARRIER)


def entries_after(index: int, offset: int, specs: Sequence[Spec]) -> list[Entry]:
    made = []
    for spec in specs:
        index += 1
        is_data = spec.kind is EntryKind.DATA
        if spec.marker is not None:
            payload: bytes | bytearray = encode_marker(spec.marker, spec.timestamp)
            stamp(payload, offset, spec.term)
        else:
            payload = batch(offset, spec.records, spec.timestamp, spec.size) if is_data else b"p" * spec.size
        records = spec.records if is_data else 0
        made.append(Entry(Index(index), Term(spec.term), spec.kind, Offset(offset), records, payload))
        offset += records
    return made


async def append(log: Log, *specs: Spec) -> list[Entry]:
    made = entries_after(log.dirty_index, log.next_offset, specs)
    await log.append(made)
    return made


def plain(entries: Sequence[Entry]) -> list[tuple[int, int, int, int, int, bytes]]:
    """What makes two entries equal, with payloads as bytes."""
    return [(e.index, e.term, int(e.kind), e.base_offset, e.record_count, bytes(e.payload)) for e in entries]


async def everything(log: Log) -> list[tuple[int, int, int, int, int, bytes]]:
    found: list[Entry] = []
    while len(found) < log.dirty_index:
        found += await log.read(Index(len(found) + 1), 1 << 20)
    return plain(found)


@dataclass
class Fault:
    """One call that fails: the first one that matches after `skip` others."""

    call: str
    name: str
    number: int
    skip: int = 0
    half_done: bool = False
    times: int = 1


@dataclass
class Disk(OsFileSystem):
    """The machine's file system; chosen calls fail, and use of a closed file is an error of its own."""

    syncs: bool = False
    # Files are made longer ahead, as on a machine; tests that count bytes do without.
    allocates: bool = False
    # Whether anything is in the page cache.
    caches: bool = False
    faults: list[Fault] = field(default_factory=list)
    opened: dict[int, str] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)

    def fail(self, call: str, name: str, number: int = errno.EIO, **more: int | bool) -> None:
        self.faults.append(Fault(call, name, number, **more))  # type: ignore[arg-type]

    def check(self, call: str, path: str) -> Fault | None:
        self.calls.append((call, os.path.basename(path)))
        for fault in self.faults:
            if fault.call == call and path.endswith(fault.name):
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                if fault.times == 0:
                    self.faults.remove(fault)
                if not fault.half_done:
                    raise OSError(fault.number, os.strerror(fault.number), path)
                return fault
        return None

    def open(self, path: str, *, create: bool = False) -> File:
        self.check("create" if create else "open", path)
        return DiskFile(self, path, super().open(path, create=create))

    def unlink(self, path: str) -> None:
        self.check("unlink", path)
        super().unlink(path)

    def rename(self, source: str, target: str) -> None:
        self.check("rename", target)
        super().rename(source, target)

    def rmdir(self, path: str) -> None:
        self.check("rmdir", path)
        super().rmdir(path)

    def fsync_dir(self, path: str) -> None:
        self.check("fsync_dir", path)
        if self.syncs:
            super().fsync_dir(path)

    def lock(self, path: str) -> DirectoryLock:
        raise NotImplementedError(path)


class DiskFile:
    """A file of `Disk`."""

    def __init__(self, disk: Disk, path: str, file: File) -> None:
        self._disk = disk
        self._path = path
        self._file = file
        disk.opened[id(self)] = path

    def _check(self, call: str) -> Fault | None:
        assert id(self) in self._disk.opened, f"{call} of {self._path} after it was closed"
        return self._disk.check(call, self._path)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        fault = self._check("pwritev")
        data = b"".join(buffers)
        if fault is not None:
            self._file.pwritev([data[: len(data) // 2]], position)
            raise OSError(fault.number, os.strerror(fault.number), self._path)
        self._file.pwritev([data], position)

    def append(self, buffers: Sequence[Buffer], position: int) -> None:
        if self._disk.allocates:
            self._file.append([b"".join(buffers)], position)
        else:
            self.pwritev(buffers, position)

    def pread(self, size: int, position: int) -> bytes:
        self._check("pread")
        return self._file.pread(size, position)

    def will_need(self, size: int, position: int) -> None:
        self._check("will_need")

    def send(self, descriptor: int, size: int, position: int) -> int:
        self._check("send")
        return self._file.send(descriptor, size, position)

    def is_cached(self, size: int, position: int) -> bool:
        return self._disk.caches

    def fsync(self) -> None:
        self._check("fsync")
        if self._disk.syncs:
            self._file.fsync()

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._file.truncate(size)

    def size(self) -> int:
        self._check("size")
        return self._file.size()

    def close(self) -> None:
        self._check("close")
        del self._disk.opened[id(self)]
        self._file.close()


class StepWorkers:
    """Jobs run on the loop after one step; those of a held pool wait, before they run or before they report."""

    def __init__(self) -> None:
        self.is_quick = False
        self._before: dict[Pool, asyncio.Event] = {}
        self._after: dict[Pool, asyncio.Event] = {}

    def hold(self, pool: Pool, *, after: bool = False) -> None:
        (self._after if after else self._before)[pool] = asyncio.Event()

    def release(self, pool: Pool) -> None:
        for held in (self._before, self._after):
            if pool in held:
                held.pop(pool).set()

    def run_now(self, job: Callable[[], None]) -> bool:
        if self.is_quick:
            job()
        return self.is_quick

    async def run(self, pool: Pool, job: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        if pool in self._before:
            await self._before[pool].wait()
        try:
            return job()
        finally:
            if pool in self._after:
                await self._after[pool].wait()

    def close(self) -> None:
        pass


class Clock:
    """A wall clock that tests set."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms


class Place:
    """A directory for a log and the environment it is opened in."""

    def __init__(self, directory: Path, **options: int) -> None:
        self.directory = directory / "groups" / "0123-7"
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.disk = Disk()
        self.workers = StepWorkers()
        self.clock = Clock()
        self.options = LogOptions(
            **({"segment_bytes": 700, "index_interval_bytes": 150, "tail_cache_bytes": 1} | options)
        )
        self.env = Environment(self.clock, self.disk, OsNetwork(), Rng(1), self.workers)

    async def open(self, identity: LogIdentity = IDENTITY, **how: Any) -> Log:
        return await Log.open(self.env, str(self.directory), identity, self.options, **how)

    @asynccontextmanager
    async def opened(self, **how: Any) -> AsyncIterator[Log]:
        log = await self.open(**how)
        try:
            yield log
        finally:
            await log.close()
            assert self.disk.opened == {}, "a file was left open"

    async def crash(self, log: Log) -> None:
        """End the log without a flush, as a killed process does."""
        await log._settle()
        assert self.disk.opened == {}, "a file was left open"

    def names(self, suffix: str = ".log") -> list[str]:
        return sorted(path.name for path in self.directory.iterdir() if path.name.endswith(suffix))

    def bases(self) -> list[tuple[int, int]]:
        """Base index and term of each segment."""
        return [(int(name[:20]), int(name[21:-4])) for name in self.names()]

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.directory.iterdir())}

    def spans(self) -> dict[int, tuple[Path, int, int]]:
        """File and byte range of each entry, by index."""
        found = {}
        for name in self.names():
            path = self.directory / name
            file = OsFileSystem().open(str(path))
            # Behind the last entry may be zeros, also after a recovery (RFC 0002, 4 and 7).
            with suppress(CorruptLogError):
                for position, parsed in scan(SegmentView(name, file, 0, file.size())):
                    found[int(parsed.entry.index)] = (path, position, position + parsed.entry.size)
            file.close()
        return found


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


async def steps(count: int = 20) -> None:
    """Let everything that can go on go on."""
    for _ in range(count):
        await asyncio.sleep(0)
