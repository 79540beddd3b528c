"""Flush: it covers what was written before it began, shares its fsync, and a failed one is for ever."""

import asyncio
import errno
from pathlib import Path

import pytest
from log_harness import Place, Spec, append, everything, plain, steps

from model.ids import Index
from runtime.workers import Pool
from storage.errors import LogPoisonedError


def test_a_flush_covers_what_was_written_and_says_how_far(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, *[Spec()] * 3)
            assert await log.flush() == 3
            assert (log.flushed_index, log.unflushed_bytes) == (3, 0)
            place.disk.calls.clear()
            assert await log.flush() == 3
            assert place.disk.calls == [], "nothing to flush, nothing done"

    asyncio.run(scenario())


def test_a_flush_covers_every_segment_that_an_append_touched(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, *[Spec(size=13)] * 5)
            place.disk.calls.clear()
            await log.flush()
            synced = [name for call, name in place.disk.calls if call == "fsync" and name.endswith(".log")]
            assert synced == place.names()

    asyncio.run(scenario())


def test_callers_at_the_same_time_share_one_fsync(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, Spec())
            place.disk.calls.clear()
            assert await asyncio.gather(*[log.flush() for _ in range(5)]) == [1] * 5
            assert [call for call, _ in place.disk.calls] == ["fsync"]

    asyncio.run(scenario())


def test_what_was_written_after_the_fsync_began_waits_for_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            loop = asyncio.get_running_loop()
            await append(log, Spec())
            place.workers.hold(Pool.FSYNC)
            first = loop.create_task(log.flush())
            await steps()
            await append(log, Spec())
            unflushed = log.unflushed_bytes
            second = loop.create_task(log.flush())
            await steps()
            assert not first.done()
            assert not second.done()
            place.workers.release(Pool.FSYNC)
            assert await first >= 1
            assert log.flushed_index == 1
            assert log.unflushed_bytes == unflushed // 2
            assert not second.done()
            assert await second == 2

    asyncio.run(scenario())


def test_a_cancelled_flush_goes_on_for_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            loop = asyncio.get_running_loop()
            await append(log, Spec())
            place.workers.hold(Pool.FSYNC)
            first, second = loop.create_task(log.flush()), loop.create_task(log.flush())
            await steps()
            first.cancel()
            await steps()
            place.workers.release(Pool.FSYNC)
            assert await second == 1
            assert first.cancelled()

    asyncio.run(scenario())


def test_a_failed_fsync_poisons_for_ever(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            written = await append(log, Spec())
            await log.flush()
            written += await append(log, Spec())
            place.disk.fail("fsync", ".log", errno.EIO)
            results = await asyncio.gather(log.flush(), log.flush(), return_exceptions=True)
            assert all(isinstance(result, LogPoisonedError) for result in results)
            assert (log.flushed_index, log.is_poisoned) == (1, True)
            place.disk.calls.clear()
            with pytest.raises(LogPoisonedError, match="fsync failed"):
                await log.flush()
            with pytest.raises(LogPoisonedError):
                await append(log, Spec())
            assert place.disk.calls == [], "a later success must not be believed: there is none"
            assert await everything(log) == plain(written)
        # The restart writes what it keeps again before it calls it flushed.
        place.disk.calls.clear()
        async with place.opened() as log:
            assert log.flushed_index == log.dirty_index == 2
            name = place.names()[0]
            rewritten = [call for call, target in place.disk.calls if target == name and call in ("pwritev", "fsync")]
            assert rewritten == ["pwritev", "fsync"]

    asyncio.run(scenario())


@pytest.mark.parametrize("after", [False, True])
def test_a_flush_that_crosses_a_truncation_proves_nothing_and_is_repeated(tmp_path: Path, after: bool) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, *[Spec()] * 6)
            place.workers.hold(Pool.FSYNC, after=after)
            task = asyncio.get_running_loop().create_task(log.flush())
            await steps()
            await log.truncate(Index(5))
            assert (log.dirty_index, log.flushed_index) == (4, 0)
            assert log.unflushed_bytes == log.size_bytes
            await append(log, Spec(size=30))
            place.disk.calls.clear()
            place.workers.release(Pool.FSYNC)
            await steps(3)
            assert log.flushed_index == 0, "the first fsync says nothing about what is there now"
            assert await task >= 4
            assert ("fsync", place.names()[-1]) in place.disk.calls
            await log.flush()
            assert (log.flushed_index, log.unflushed_bytes) == (5, 0)

    asyncio.run(scenario())


def test_the_repeated_flush_covers_every_file_of_the_first_that_is_still_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, *[Spec(size=13)] * 8)
            place.workers.hold(Pool.FSYNC)
            task = asyncio.get_running_loop().create_task(log.flush())
            await steps()
            await log.truncate(Index(6))
            place.workers.release(Pool.FSYNC)
            place.workers.hold(Pool.FSYNC)
            await steps()
            assert not task.done()
            place.disk.calls.clear()
            place.workers.release(Pool.FSYNC)
            assert await task == 5
            assert [name for call, name in place.disk.calls if call == "fsync"][:3] == place.names()

    asyncio.run(scenario())


def test_a_flush_of_entries_that_a_truncation_removed_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, *[Spec()] * 3)
            place.workers.hold(Pool.FSYNC)
            task = asyncio.get_running_loop().create_task(log.flush())
            await steps()
            await log.truncate(Index(1))
            place.workers.release(Pool.FSYNC)
            assert await task == 0
            assert (log.dirty_index, log.unflushed_bytes) == (0, 0)

    asyncio.run(scenario())


def test_a_closed_and_flushed_segment_gets_its_index_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, *[Spec(size=13)] * 2)
            await log.flush()  # Everything in the segment is flushed before it is closed.
            await append(log, *[Spec(size=13)] * 3)
            await steps()
            assert place.names(".index") == []
            await log.flush()
            await steps()
            assert place.names(".index") == ["00000000000000000001-1.index", "00000000000000000003-1.index"]

    asyncio.run(scenario())


def test_no_index_file_for_a_segment_that_grew_during_the_fsync(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, Spec(size=13))
            place.workers.hold(Pool.FSYNC, after=True)
            task = asyncio.get_running_loop().create_task(log.flush())
            await steps()
            await append(log, Spec(size=13), Spec(size=13))  # Entry 2 fills the segment, entry 3 closes it.
            place.workers.release(Pool.FSYNC)
            assert await task == 1
            await steps()
            assert place.names(".index") == [], "entry 2 is not durable: nothing may say that it is"
            await log.flush()
            await steps()
            assert place.names(".index") == ["00000000000000000001-1.index"]

    asyncio.run(scenario())


def test_an_index_file_that_cannot_be_written_is_written_at_the_next_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            place.disk.fail("rename", ".index")
            written = await append(log, *[Spec(size=13)] * 4)
            await log.flush()
            await steps()
            assert place.names(".index") == []
            assert not log.is_poisoned
        async with place.opened() as log:
            await steps()
            assert place.names(".index") == ["00000000000000000001-1.index"]
            assert place.names(".tmp") == []
            assert await everything(log) == plain(written)

    asyncio.run(scenario())
