"""A crash after any effect of a save, an install or an isolation leaves the old state or the new one, never a mix."""

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from log_harness import IDENTITY, Clock, Spec, append, barrier, plain, steps

from model.ids import Index, Offset, Term
from runtime.environment import Environment
from runtime.network import OsNetwork
from runtime.rng import Rng
from runtime.workers import Pool
from storage.entry import Entry
from storage.errors import DamagedLogError, StorageError
from storage.log import Log
from storage.log_start import ORIGIN, LogStart
from storage.options import LogOptions
from storage.snapshot_file import Snapshot
from tests.simulation.world.sim_disk import SimDisk, SimFile, SimFileSystem
from tests.simulation.world.trace import Trace

DIRECTORY = "/data/groups/0123-7"
OPTIONS = LogOptions(segment_bytes=300, index_interval_bytes=150, tail_cache_bytes=1)
_CHANGES = {"mkdir", "rename", "unlink", "rmdir", "fsync_dir"}
_FILE_CHANGES = {"pwritev", "fsync", "truncate"}


class _Clock:
    time = 0.0


class _Alive:
    dead = False


class LimitedFile:
    """A file of one life."""

    def __init__(self, life: "Life", file: SimFile) -> None:
        self._life = life
        self._file = file

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._file, name)

        def counted(*arguments: Any) -> Any:
            if name in _FILE_CHANGES:
                self._life.spend()
            return call(*arguments)

        return counted


class Life:
    """One process: after so many changes of the disk every further one fails, as if the process had ended."""

    def __init__(self, disk: SimDisk, effects: int = 1_000_000) -> None:
        self.left = effects
        self.files = SimFileSystem(disk, _Alive())  # type: ignore[arg-type]
        self.env = Environment(Clock(), self, OsNetwork(), Rng(1), self)  # type: ignore[arg-type]

    def spend(self) -> None:
        if self.left <= 0:
            raise OSError(errno.EIO, "the process has ended")
        self.left -= 1

    def open(self, path: str, *, create: bool = False) -> LimitedFile:
        if create:
            self.spend()
        return LimitedFile(self, self.files.open(path, create=create))

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.files, name)

        def counted(*arguments: Any) -> Any:
            if name in _CHANGES:
                self.spend()
            return call(*arguments)

        return counted

    def run_now(self, job: Callable[[], None]) -> bool:
        return False

    async def run(self, pool: Pool, job: Callable[[], Any]) -> Any:
        await asyncio.sleep(0)
        return job()

    async def log(self, **how: Any) -> Log:
        return await Log.open(self.env, DIRECTORY, IDENTITY, OPTIONS, **how)


def new_disk(seed: int | None) -> SimDisk:
    disk = SimDisk(1, random.Random(seed or 0), Trace(_Clock()))
    disk.allocates = seed is not None and seed % 2 == 1
    files = SimFileSystem(disk, _Alive())  # type: ignore[arg-type]
    files.mkdir("/data")
    files.mkdir("/data/groups")
    return disk


async def filled(life: Life, unflushed: int = 0) -> tuple[Log, list[Entry]]:
    log = await life.log()
    written: list[Entry] = []
    for term in (1, 2, 4):
        written += await append(log, barrier(term), *[Spec(term=term, size=60)] * 3)
    await log.flush()
    await steps(60)
    if unflushed:
        written += await append(log, *[Spec(term=4, size=60)] * unflushed)
    return log, written


def start_at(written: list[Entry], index: int) -> LogStart:
    before = written[index - 2]
    return LogStart(Index(index), before.end_offset, before.end_offset, before.term)


async def cut_short(act: Awaitable[object]) -> bool:
    try:
        await act
    except StorageError:
        return True
    return False


SEEDS = [None, *range(12)]
"""None: the process is killed; a number: the power is lost, and what no fsync covered is drawn."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("start", "configuration"), [(6, b""), (8, b""), (13, b""), (8, b"in parts")])
def test_a_save_cut_short_anywhere_leaves_the_former_start_or_the_new_one(
    seed: int | None, start: int, configuration: bytes
) -> None:
    async def scenario() -> int:
        effects = 0
        while True:
            disk = new_disk(seed)
            life = Life(disk)
            log, written = await filled(life)
            former = Snapshot(start_at(written, 3), Index(4), Term(1), b"former")
            log.advance_start(former.start)
            await log.save_snapshot(former)
            newer = Snapshot(start_at(written, start), Index(12), Term(4), b"newer" * 100, configuration)
            log.advance_start(newer.start)
            life.left = effects
            was_cut = await cut_short(log.save_snapshot(newer))
            if seed is not None:
                disk.lose_power()
            for _ in range(2):
                log = await Life(disk).log(known_index=Index(12))
                found = log.pop_snapshot()
                assert found in (former, newer)
                assert was_cut or found == newer
                assert found is not None
                assert (log.start, log.dirty_index) == (found.start, 12)
                run = await log.read(log.start_index, 1 << 20)
                assert plain(run) == plain(written[log.start_index - 1 :])
                assert log.epoch_end(Term(4)) == (4 if start <= 12 else 0, written[-1].end_offset) or found == former
                await log.close()
            if not was_cut:
                return effects
            effects += 1

    assert asyncio.run(scenario()) >= 6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("configuration", [b"", b"in parts"])
@pytest.mark.parametrize(
    "kind", ["far ahead", "another term", "another term before a segment", "another term in the first segment", "kept"]
)
def test_an_install_cut_short_anywhere_leaves_the_old_log_or_the_new_one(
    seed: int | None, kind: str, configuration: bytes
) -> None:
    async def scenario() -> int:
        effects = 0
        while True:
            disk = new_disk(seed)
            life = Life(disk)
            log, written = await filled(life, unflushed=3)
            start = {
                "far ahead": LogStart(Index(100), Offset(300), Offset(301), Term(4)),
                # A segment begins at 10, and what is known of it alone would fit this start.
                "another term before a segment": LogStart(
                    Index(10), written[9].base_offset, written[9].base_offset, Term(3)
                ),
                "another term": LogStart(Index(10), Offset(40), Offset(40), Term(3)),
                "another term in the first segment": LogStart(Index(3), Offset(40), Offset(40), Term(3)),
                "kept": start_at(written, 15),
            }[kind]
            snapshot = Snapshot(start, Index(start.index + 20), Term(9), b"from the leader" * 50, configuration)
            life.left = effects
            was_cut = await cut_short(log.install(snapshot))
            if seed is not None:
                disk.lose_power()
            for _ in range(2):
                log = await Life(disk).log()
                found = log.pop_snapshot()
                assert found in (None, snapshot)
                assert was_cut or found == snapshot
                if found is None:
                    assert log.start == ORIGIN
                    assert log.dirty_index >= 12
                    assert plain(await log.read(Index(1), 1 << 20)) == plain(written[: log.dirty_index])
                else:
                    assert log.start == start
                    assert log.dirty_index >= start.prev_index
                    assert log.term_at(start.prev_index) == start.prev_term
                    if kind == "kept":
                        kept = await log.read(start.index, 1 << 20)
                        assert plain(kept) == plain(written[14 : log.dirty_index])
                    else:
                        assert (log.dirty_index, log.last_term) == (start.prev_index, start.prev_term)
                        assert (log.next_offset, log.size_bytes) == (start.base_offset, 0)
                assert log.flushed_index == log.dirty_index
                await log.close()
            if not was_cut:
                return effects
            effects += 1

    assert asyncio.run(scenario()) >= 5


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", ["an entry", "the snapshot"])
def test_an_isolation_cut_short_anywhere_is_finished_by_the_next_one(seed: int | None, what: str) -> None:
    async def scenario() -> int:
        effects = 0
        while True:
            disk = new_disk(seed)
            log, written = await filled(Life(disk))
            start = start_at(written, 6)
            log.advance_start(start)
            await log.save_snapshot(Snapshot(start, Index(12), Term(4), b"state"))
            await log.close()
            files = SimFileSystem(disk, _Alive())  # type: ignore[arg-type]
            names = [name for name in files.listdir(DIRECTORY) if name.endswith(".log")]
            damaged = f"{DIRECTORY}/{names[1] if what == 'an entry' else 'snapshot'}"
            file = files.open(damaged)
            file.pwritev([b"\xff"], 20)
            file.fsync()
            expected = int(names[1][:20]) - 1 if what == "an entry" else 0
            rescan = frozenset({damaged})
            with pytest.raises(DamagedLogError) as caught:
                await Life(disk).log(rescan=rescan)
            assert caught.value.lost_end == (12, 4)
            was_cut = await cut_short(Life(disk, effects).log(rescan=rescan, isolate=True))
            if seed is not None:
                disk.lose_power()
            for _ in range(2):
                log = await Life(disk).log(rescan=rescan, isolate=True)
                assert log.dirty_index == expected
                assert log.start == (start if what == "an entry" else ORIGIN)
                assert log.has_damaged_copies
                if what == "an entry":
                    assert plain(await log.read(Index(6), 1 << 20)) == plain(written[5:expected])
                await log.close()
            if not was_cut:
                return effects
            effects += 1

    assert asyncio.run(scenario()) >= 5
