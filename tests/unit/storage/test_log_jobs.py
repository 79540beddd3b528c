"""Jobs of a log: whatever they raise, nobody waits for ever; and what becomes of files of segments that left the log."""

import asyncio
import errno
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from log_harness import IDENTITY, Place, Spec, append, steps

import storage.log_appender
import storage.log_flusher
import storage.log_jobs
import storage.log_reader
import storage.log_snapshots
from model.ids import GroupId, Index
from runtime.environment import system_environment
from runtime.gate import CONTAINED
from runtime.workers import HungWorkersError, Pool
from storage.errors import HungReadError, LogPoisonedError, StorageError
from storage.log import Log
from storage.log_health import LogHealth
from storage.log_jobs import READ_SECONDS_MAX, LogJobs
from storage.options import LogOptions
from storage.snapshot_file import Snapshot
from tests.simulation.world.world import World


class _BrokenFile:
    def close(self) -> None:
        raise OSError(5, "Input/output error")


def test_a_removed_segment_that_cannot_be_closed_is_logged_and_holds_up_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        env = system_environment()
        jobs = LogJobs(env, "0123-7", LogHealth(GroupId("0123-7")))
        for name in ("one", "two"):
            segment: Any = SimpleNamespace(name=name, file=_BrokenFile())
            jobs.retire(segment)
        async with asyncio.timeout(10):
            await jobs.close()
        env.workers.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        f"[0123-7] closing removed segment {name}: [Errno 5] Input/output error" for name in ("two", "one")
    ]


class _CountingFile:
    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self.closed.set)


def test_a_removed_segment_is_closed_while_reads_of_the_log_follow_one_another() -> None:
    async def scenario() -> None:
        env = system_environment()
        jobs = LogJobs(env, "0123-7", LogHealth(GroupId("0123-7")))
        goes_on = threading.Event()
        read = asyncio.ensure_future(jobs.use(Pool.READ, lambda: goes_on.wait(30)))
        await asyncio.sleep(0)  # The tasks take their first step.
        segment: Any = SimpleNamespace(name="one", file=_CountingFile())
        jobs.retire(segment)
        async with asyncio.timeout(10):
            await segment.file.closed.wait()
        assert not read.done()
        goes_on.set()
        assert await read
        await jobs.close()
        env.workers.close()

    asyncio.run(scenario())


def test_a_removed_segment_stays_open_while_an_fsync_of_the_log_runs() -> None:
    async def scenario() -> None:
        env = system_environment()
        jobs = LogJobs(env, "0123-7", LogHealth(GroupId("0123-7")))
        goes_on = threading.Event()
        fsync = asyncio.ensure_future(jobs.use_here(Pool.FSYNC, lambda: goes_on.wait(30)))
        await asyncio.sleep(0)  # The tasks take their first step.
        segment: Any = SimpleNamespace(name="one", file=_CountingFile())
        jobs.retire(segment)
        # As many turns of the pool as the close would need, had it been begun.
        for _ in range(3):
            await env.workers.run(Pool.READ, lambda: None)
        assert not segment.file.closed.is_set()
        goes_on.set()
        assert await fsync
        async with asyncio.timeout(10):
            await segment.file.closed.wait()
        await jobs.close()
        env.workers.close()

    asyncio.run(scenario())


def test_a_removed_segment_is_closed_later_where_all_threads_hang_in_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage.log_jobs, "_INSIST_PAUSE", 0.0)

    async def scenario() -> None:
        env = system_environment()
        run, refusals = env.workers.run, iter(range(3))

        async def refusing(pool: Pool, job: Callable[[], None]) -> None:
            if next(refusals, None) is not None:
                raise HungWorkersError(errno.EBUSY, "8 reads of the disk hang")
            await run(pool, job)

        monkeypatch.setattr(env.workers, "run", refusing)
        jobs = LogJobs(env, "0123-7", LogHealth(GroupId("0123-7")))
        segment: Any = SimpleNamespace(name="one", file=_CountingFile())
        jobs.retire(segment)
        async with asyncio.timeout(10):
            await segment.file.closed.wait()
        assert next(refusals, None) is None
        await jobs.close()
        env.workers.close()

    asyncio.run(scenario())


def test_a_log_ends_while_the_close_of_a_removed_segment_finds_no_thread_and_may_be_closed_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        env = system_environment()
        run = env.workers.run

        async def refusing(pool: Pool, job: Callable[[], None]) -> None:
            if pool is Pool.READ:
                raise HungWorkersError(errno.EBUSY, "8 reads of the disk hang")
            await run(pool, job)

        monkeypatch.setattr(env.workers, "run", refusing)
        jobs = LogJobs(env, "0123-7", LogHealth(GroupId("0123-7")))
        segment: Any = SimpleNamespace(name="one", file=_CountingFile())
        jobs.retire(segment)
        async with asyncio.timeout(10):
            await jobs.close()
            await jobs.close()
        env.workers.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert "1 removed segments stay open: the disk hangs" in caplog.text


# -- what nobody foresaw --------------------------------------------------------------------------------------------


def _mistake(*_: object) -> None:
    raise AssertionError("a mistake of ours")


def _run_now(job: Callable[[], None]) -> bool:
    job()
    return True


def _reports() -> list[dict[str, Any]]:
    """Return the list that the loop's exception handler fills from here on."""
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    return reports


async def _ends(log: Log, reports: list[dict[str, Any]]) -> None:
    """The log can be closed, and the mistake was told once, as one that ends no process."""
    async with asyncio.timeout(10):
        await log.close()
    assert [(str(report["exception"]), report[CONTAINED]) for report in reports] == [("a mistake of ours", True)]


def test_a_save_that_ends_in_a_mistake_of_ours_tells_its_caller_and_poisons_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        log, reports = await place.open(), _reports()
        await append(log, Spec(term=1), Spec(term=1))
        await log.flush()
        monkeypatch.setattr(storage.log_snapshots, "write_snapshot", _mistake)
        snapshot = Snapshot(log.start, Index(2), log.last_term, b"state")
        saves = [asyncio.ensure_future(log.save_snapshot(snapshot)) for _ in range(2)]
        async with asyncio.timeout(10):
            results = await asyncio.gather(*saves, return_exceptions=True)
        assert [type(result) for result in results] == [LogPoisonedError, LogPoisonedError]
        assert log.is_poisoned
        assert [entry.index for entry in await log.read(Index(1), 1 << 20)] == [1, 2]
        await _ends(log, reports)

    asyncio.run(scenario())


def test_whoever_waits_would_wait_for_ever_in_a_lane_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def complete(lane: Any, effect: Any, done: asyncio.Future[None]) -> None:
        try:
            await effect()
        except (StorageError, OSError) as error:
            lane._end(done, error)
        else:
            lane._end(done, None)

    async def scenario() -> None:
        log, reports = await Place(tmp_path).open(), _reports()
        monkeypatch.setattr(storage.log_appender, "write_parts", _mistake)
        waiting = asyncio.ensure_future(append(log, Spec(term=1)))
        await steps(100)
        assert [str(report["exception"]) for report in reports] == ["a mistake of ours"]
        assert not waiting.done()
        waiting.cancel()

    monkeypatch.setattr(storage.log_jobs._Lane, "_complete", complete)
    asyncio.run(scenario())


def test_an_append_that_ends_in_a_mistake_of_ours_tells_its_caller_and_poisons_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        log, reports = await place.open(), _reports()
        monkeypatch.setattr(storage.log_appender, "write_parts", _mistake)
        async with asyncio.timeout(10):
            with pytest.raises(LogPoisonedError, match="a mistake of ours"):
                await append(log, Spec(term=1))
        await _ends(log, reports)

    asyncio.run(scenario())


def test_a_small_append_on_the_loop_that_ends_in_a_mistake_of_ours_poisons_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        log, reports = await place.open(), _reports()
        # The segment is open from here on: the next append needs no thread.
        await append(log, Spec(term=1))
        monkeypatch.setattr(place.workers, "run_now", _run_now)
        monkeypatch.setattr(storage.log_appender, "write_parts", _mistake)
        with pytest.raises(LogPoisonedError, match="a mistake of ours"):
            await append(log, Spec(term=1))
        await _ends(log, reports)

    asyncio.run(scenario())


def test_an_fsync_that_ends_in_a_mistake_of_ours_tells_its_caller_and_poisons_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        log, reports = await place.open(), _reports()
        await append(log, Spec(term=1))
        monkeypatch.setattr(storage.log_flusher, "_fsync_all", _mistake)
        async with asyncio.timeout(10):
            with pytest.raises(LogPoisonedError, match="a mistake of ours"):
                await log.flush()
        await _ends(log, reports)

    asyncio.run(scenario())


def test_a_read_that_ends_in_a_mistake_of_ours_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        log, reports = await place.open(), _reports()
        await append(log, *[Spec(term=1, size=100)] * 12)
        with monkeypatch.context() as patch:
            patch.setattr(storage.log_reader, "read_run", _mistake)
            async with asyncio.timeout(10):
                with pytest.raises(StorageError, match="a mistake of ours"):
                    await log.read(Index(1), 1)
        assert not log.is_poisoned
        assert [entry.index for entry in await log.read(Index(1), 1)] == [1]
        await _ends(log, reports)

    asyncio.run(scenario())


# -- a disk that does not answer ------------------------------------------------------------------------------------


def test_a_read_that_hangs_is_refused_and_holds_up_nothing_else() -> None:
    with World(5) as world:
        node = world.add_node(1)

        async def scenario() -> None:
            loop = asyncio.get_running_loop()
            options = LogOptions(segment_bytes=700, index_interval_bytes=150, tail_cache_bytes=1)
            log = await Log.open(node.environment, "/log", IDENTITY, options)
            await append(log, *[Spec(term=1, size=100)] * 12)
            node.workers.stall(Pool.READ, 3 * READ_SECONDS_MAX)
            began = loop.time()
            with pytest.raises(HungReadError):
                await log.read(Index(1), 1)
            assert READ_SECONDS_MAX <= loop.time() - began < READ_SECONDS_MAX + 1
            began = loop.time()
            with pytest.raises(HungReadError):
                await log.read(Index(1), 1)
            assert loop.time() == began, "another read is refused at once"
            await append(log, Spec(term=1))
            assert await log.flush() == 13
            await asyncio.sleep(3 * READ_SECONDS_MAX)
            assert [entry.index for entry in await log.read(Index(1), 1)] == [1], "the disk answers again"
            node.workers.stall(Pool.READ, 10 * READ_SECONDS_MAX)
            with pytest.raises(HungReadError):
                await log.read(Index(1), 1)
            began = loop.time()
            await log.close()
            assert loop.time() < began + 1, "the end does not wait for it"

        world.run(node, scenario(), seconds=200)
