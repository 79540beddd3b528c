"""Any sequence of operations, cut at any effect on the disk by a power loss or a kill: what was flushed is there."""

import asyncio
import errno

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_harness import Spec, append, entries_after, plain
from test_log_crash_points import Life, new_disk

import storage.log_appender
import storage.log_snapshots
from model.ids import Index, Offset, Term
from runtime.open_files import CachedFile, OpenFiles
from storage.entry import Entry
from storage.errors import OpenFilesError, StorageError
from storage.log import Log
from storage.log_start import ORIGIN, LogStart
from storage.segment_writer import SegmentPart
from storage.snapshot_file import Snapshot

STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "append", "flush", "truncate", "save", "save", "install"]), st.integers(0, 9)),
    min_size=1,
    max_size=14,
)


class History:
    """What the log did, and what may be found after the power is lost.

    `entries` holds the newest entry of each index; `flushed` is what must be there; `snapshots` are those that may be
    found: the newest durable one and the one that was being written.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.entries: dict[int, Entry] = {}
        self.snapshots: list[Snapshot | None] = [None]
        self.flushed = 0
        self.is_installing = False

    def start_at(self, index: int) -> LogStart:
        log = self.log
        if index == log.start_index:
            return log.start
        before = self.entries[index - 1]
        return LogStart(Index(index), before.end_offset, before.end_offset, before.term)

    async def step(self, name: str, number: int) -> None:
        log = self.log
        if name == "append":
            term = max(1, int(log.last_term)) + (number == 7)
            specs = [Spec(term=term, size=30 * number)] * (1 + number % 3)
            made = entries_after(log.dirty_index, log.next_offset, specs)
            self.entries.update({entry.index: entry for entry in made})
            await log.append(made)
        elif name == "flush":
            await log.flush()
            self.flushed = int(log.flushed_index)
        elif name == "truncate":
            lowest = max(int(log.start_index), int(log.snapshot_index) + 1)
            first = max(lowest, int(log.dirty_index) - number)
            if first <= log.dirty_index:
                self.flushed = min(self.flushed, first - 1)
                await log.truncate(Index(first))
        elif name == "save":
            index = min(int(log.flushed_index), int(log.start_index) + number) + 1
            start = self.start_at(max(index, int(log.start_index)))
            log.advance_start(start)
            applied = max(start.prev_index, log.snapshot_index)
            # Some are in parts.
            await self.save(Snapshot(start, applied, Term(99), b"s" * 700, b"who" * (number % 2)))
        else:
            index = int(log.dirty_index) + 2 + number
            start = LogStart(
                Index(index), log.next_offset, Offset(log.next_offset + 1), Term(max(1, int(log.last_term)))
            )
            snapshot = Snapshot(start, start.prev_index, start.prev_term, b"i" * 700)
            self.snapshots = [self.snapshots[-1], snapshot]
            self.is_installing = True
            await log.install(snapshot)
            self.is_installing = False
            self.snapshots = [snapshot]
            self.flushed = index - 1

    async def save(self, snapshot: Snapshot) -> None:
        self.snapshots = [self.snapshots[-1], snapshot]
        await self.log.save_snapshot(snapshot)
        self.snapshots = [snapshot]

    async def check(self, log: Log) -> None:
        found = log.pop_snapshot()
        assert found in self.snapshots
        assert log.start == (found.start if found is not None else ORIGIN)
        if self.is_installing and found == self.snapshots[-1]:
            assert (log.dirty_index, log.size_bytes) == (log.start.prev_index, 0)
            return
        assert log.dirty_index >= self.flushed
        assert log.flushed_index == log.dirty_index
        run = await log.read(log.start_index, 1 << 30)
        assert plain(run) == plain([self.entries[index] for index in range(log.start_index, log.dirty_index + 1)])


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, effects=st.integers(0, 120), seed=st.one_of(st.none(), st.integers(0, 1000)))
def test_what_was_flushed_survives_and_nothing_is_mixed(
    steps: list[tuple[str, int]], effects: int, seed: int | None
) -> None:
    async def scenario() -> None:
        disk = new_disk(seed)
        life = Life(disk)
        history = History(await life.log())
        life.left = effects
        try:
            for name, number in steps:
                await history.step(name, number)
        except StorageError:
            pass
        if seed is not None:
            disk.lose_power()
        for _ in range(2):
            log = await Life(disk).log()
            found = (log.start, log.dirty_index)
            await history.check(log)
            await log.close()
        log = await Life(disk).log()
        assert (log.start, log.dirty_index) == found, "a second start finds what the first one found"
        await append(log, Spec(term=100))
        await log.close()

    asyncio.run(scenario())


def test_flushed_entries_do_not_survive_if_a_snapshots_name_is_not_fsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    write = storage.log_snapshots.write_snapshot

    def without_fsync(files: OpenFiles, directory: str, snapshot: Snapshot) -> None:
        with monkeypatch.context() as inner:
            inner.setattr(OpenFiles, "fsync_dir", lambda files, path: None)
            write(files, directory, snapshot)

    monkeypatch.setattr(storage.log_snapshots, "write_snapshot", without_fsync)
    with pytest.raises((AssertionError, StorageError)):
        _save_cut_at_any_effect()


def test_segments_and_snapshot_are_never_both_lost() -> None:
    _save_cut_at_any_effect()


def _save_cut_at_any_effect() -> None:
    for effects in range(60):
        for seed in range(8):
            _append_flush_save(effects, seed)


def _append_flush_save(effects: int, seed: int) -> None:
    """Write, flush and save, cut after so many effects by a power loss; what was flushed must be there."""

    async def scenario() -> None:
        disk = new_disk(seed)
        life = Life(disk)
        history = History(await life.log())
        life.left = effects
        try:
            for name, number in [("append", 8), ("append", 8), ("flush", 0), ("save", 9), ("append", 1)]:
                await history.step(name, number)
        except StorageError:
            pass
        disk.lose_power()
        log = await Life(disk).log()
        await history.check(log)
        await log.close()

    asyncio.run(scenario())


def test_a_refused_append_never_comes_back() -> None:
    _refuse_under_many_seeds()


def _refuse_under_many_seeds() -> None:
    for seed in range(40):
        _refuse_and_lose_power(seed)


def test_a_refused_append_comes_back_if_the_undo_is_not_fsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    undo = storage.log_appender.cut_back

    def without_fsync(files: OpenFiles, directory: str, parts: list[SegmentPart]) -> None:
        with monkeypatch.context() as inner:
            inner.setattr(CachedFile, "fsync", lambda file: None)
            undo(files, directory, parts)

    monkeypatch.setattr(storage.log_appender, "cut_back", without_fsync)
    with pytest.raises(AssertionError, match="it came back"):
        _refuse_under_many_seeds()


def _refuse_and_lose_power(seed: int) -> None:
    """An append is refused for want of a descriptor after its first segment was written, and the power is lost."""

    async def scenario() -> None:
        disk = new_disk(seed)
        log = await Life(disk).log()
        await append(log, Spec(term=1, size=1))
        await log.flush()
        disk.fail_next("open", error=errno.EMFILE, path_part=".log")
        with pytest.raises(OpenFilesError):
            await append(log, *[Spec(term=1, size=1)] * 4)
        disk.lose_power()
        log = await Life(disk).log()
        assert log.dirty_index == 1, "it came back"
        await log.close()

    asyncio.run(scenario())
