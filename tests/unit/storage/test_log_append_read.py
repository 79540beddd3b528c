"""Append and read: what is written comes back, in order, across rolls, and failures leave nothing behind."""

import asyncio
import errno
from pathlib import Path

import pytest
from log_harness import Place, Spec, append, barrier, entries_after, everything, plain, steps

from model.ids import Index, Offset
from runtime.workers import Pool
from storage.entry import HEADER_BYTES, EntryKind
from storage.errors import CorruptLogError, DiskFullError, LogPoisonedError, LogTruncatedError, StorageError


def test_entries_come_back_as_they_were_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            written = await append(log, barrier(1), Spec(), Spec(records=3, size=300), Spec(kind=EntryKind.COMMAND))
            assert await everything(log) == plain(written)
            assert (log.dirty_index, log.pending_index, log.flushed_index) == (4, 4, 0)
            assert (log.next_offset, log.last_term) == (4, 1)
            assert log.unflushed_bytes == sum(entry.size for entry in written) == log.size_bytes

    asyncio.run(scenario())


def test_a_closed_log_refuses_every_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, barrier(1), Spec(records=3))
            await log.close()
            for read in (
                log.reader.index_of_offset(Offset(1)),
                log.reader.offset_of_timestamp(0, Index(2)),
                log.reader.max_timestamp(Index(2)),
                log.read(Index(1), 1_000),
            ):
                with pytest.raises(StorageError, match="is closed"):
                    await read

    asyncio.run(scenario())


def test_an_entry_that_would_make_a_segment_too_large_begins_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, Spec(size=13), Spec(size=13))  # 130 bytes each
            await append(log, Spec(size=13))
            assert place.bases() == [(1, 1), (3, 1)]

    asyncio.run(scenario())


def test_an_entry_larger_than_a_segment_goes_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, Spec(), Spec(size=1000), Spec())
            assert place.bases() == [(1, 1), (2, 1), (3, 1)]
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_one_append_may_roll_several_times(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, *[Spec(size=13)] * 9)
            assert place.bases() == [(1, 1), (3, 1), (5, 1), (7, 1), (9, 1)]
            written += await append(log, *[Spec(size=13)] * 4)
            assert place.bases() == [(1, 1), (3, 1), (5, 1), (7, 1), (9, 1), (11, 1), (13, 1)]
            assert await everything(log) == plain(written)
            await log.flush()
        async with place.opened() as log:
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_a_term_that_brings_data_begins_a_segment_and_a_barrier_alone_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, barrier(1), Spec(term=1), barrier(2), barrier(3))
            assert place.bases() == [(1, 1)]
            await append(log, Spec(term=3), Spec(term=3))
            assert place.bases() == [(1, 1), (5, 3)]

    asyncio.run(scenario())


def test_an_old_segment_rolls(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_ms=1000)
        async with place.opened() as log:
            await append(log, Spec())
            place.clock.ms += 1000
            await append(log, Spec())
            assert place.bases() == [(1, 1)]
            place.clock.ms += 1
            await append(log, Spec())
            assert place.bases() == [(1, 1), (3, 1)]

    asyncio.run(scenario())


def test_a_restart_does_not_make_a_segment_young_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_ms=1000)
        async with place.opened() as log:
            await append(log, Spec(timestamp=place.clock.ms - 5))
        place.clock.ms += 999
        async with place.opened() as log:
            await append(log, Spec())
            assert place.bases() == [(1, 1), (2, 1)]

    asyncio.run(scenario())


def test_a_segment_that_becomes_active_again_keeps_its_age_over_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=320, segment_ms=1000)
        async with place.opened() as log:
            await append(log, *[Spec(size=13, timestamp=-1)] * 3)
        (place.directory / place.names()[1]).write_bytes(b"")
        place.clock.ms += 1001
        async with place.opened() as log:
            assert place.bases() == [(1, 1)]
            await append(log, barrier(1))  # There is room for it.
            assert place.bases() == [(1, 1), (3, 1)]

    asyncio.run(scenario())


def test_only_the_first_batch_tells_the_age_of_a_segment(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_ms=1000)
        async with place.opened() as log:
            await append(log, Spec(timestamp=place.clock.ms - 5), Spec(timestamp=0))
        async with place.opened() as log:
            await append(log, Spec())
            assert place.bases() == [(1, 1)]

    asyncio.run(scenario())


def test_a_timestamp_in_the_future_does_not_make_a_segment_younger_than_the_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_ms=1000)
        async with place.opened() as log:
            await append(log, Spec(timestamp=1 << 60))
        async with place.opened() as log:
            await append(log, Spec())
            place.clock.ms += 1001
            await append(log, Spec())
            assert place.bases() == [(1, 1), (3, 1)]

    asyncio.run(scenario())


def test_a_read_returns_at_least_one_entry_and_then_what_fits(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, *[Spec(size=13)] * 7)
            assert plain(await log.read(Index(2), 1)) == plain(written[1:2])
            assert plain(await log.read(Index(2), 3 * 130)) == plain(written[1:4])
            assert plain(await log.read(Index(2), 3 * 130 - 1)) == plain(written[1:3])
            assert plain(await log.read(Index(2), 1 << 20, Index(6))) == plain(written[1:6])
            assert await log.read(Index(8), 1) == []
            assert await log.read(Index(5), 1, Index(4)) == []
            with pytest.raises(LogTruncatedError, match="below the start"):
                await log.read(Index(0), 1)

    asyncio.run(scenario())


@pytest.mark.parametrize("cache", [1, 400, 1 << 20])
def test_the_tail_cache_and_the_files_say_the_same(tmp_path: Path, cache: int) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, tail_cache_bytes=cache)
        async with place.opened() as log:
            written = await append(log, *[Spec(size=size) for size in range(0, 400, 20)])
            for first in range(1, 21):
                for size in (1, 500, 5000):
                    run = plain(await log.read(Index(first), size))
                    assert run == plain(written[first - 1 : first - 1 + len(run)])
                    held = sum(entry.size for entry in written[first - 1 : first - 1 + len(run)])
                    assert len(run) == 1 or held <= size
                    assert first - 1 + len(run) == 20 or held + written[first - 1 + len(run)].size > size

    asyncio.run(scenario())


def test_a_full_disk_leaves_nothing_of_the_append_and_a_log_that_works(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, Spec(size=13))
            before = place.content()
            # The continued segment is written, the first new one too, the second new one only half.
            place.disk.fail("pwritev", "0000004-1.log", errno.ENOSPC, half_done=True)
            place.disk.calls.clear()
            with pytest.raises(DiskFullError):
                await append(log, *[Spec(size=13)] * 2, *[Spec(size=150)] * 2)
            assert place.content() == before
            assert ("fsync", place.names()[0]) in place.disk.calls, "the cut must be durable before the next append"
            assert (log.pending_index, log.pending_term, log.dirty_index) == (1, 1, 1)
            assert not log.is_poisoned
            written += await append(log, *[Spec(size=13)] * 5)
            await log.flush()
            assert await everything(log) == plain(written)
        async with place.opened() as log:
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_a_small_append_needs_no_thread_and_fails_as_any_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=100_000)
        place.workers.is_quick = True
        async with place.opened() as log:
            written = await append(log, Spec(size=13))
            # Jobs of threads stand still: what goes on needs none.
            place.workers.hold(Pool.APPEND)
            written += await append(log, Spec(size=13))
            assert log.dirty_index == 2
            place.workers.release(Pool.APPEND)
            before = place.content()
            place.disk.fail("pwritev", ".log", errno.ENOSPC, half_done=True)
            with pytest.raises(DiskFullError):
                await append(log, Spec(size=150))
            assert place.content() == before
            assert (log.pending_index, log.dirty_index) == (2, 2)
            written += await append(log, Spec(size=40_000), Spec(size=13))
            assert await everything(log) == plain(written)
            place.disk.fail("pwritev", ".log", errno.EIO)
            with pytest.raises(LogPoisonedError):
                await append(log, Spec(size=150))
            assert log.is_poisoned

    asyncio.run(scenario())


def test_no_room_for_the_first_segment_is_a_full_disk_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            place.disk.fail("create", ".log", errno.EDQUOT)
            with pytest.raises(DiskFullError):
                await append(log, Spec())
            assert place.names() == []
            written = await append(log, Spec())
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_a_full_disk_that_does_not_let_itself_be_cut_back_poisons(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, Spec())
            place.disk.fail("pwritev", ".log", errno.ENOSPC, half_done=True)
            place.disk.fail("truncate", ".log")
            with pytest.raises(LogPoisonedError, match="cannot be undone"):
                await append(log, Spec())
            assert log.is_poisoned

    asyncio.run(scenario())


def test_a_write_error_poisons_and_reads_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            written = await append(log, Spec(), Spec())
            place.disk.fail("pwritev", ".log", errno.EIO)
            with pytest.raises(LogPoisonedError):
                await append(log, Spec())
            for refused in (append(log, Spec()), log.flush(), log.truncate(Index(1))):
                with pytest.raises(LogPoisonedError):
                    await refused
            assert plain(await log.read(Index(1), 1 << 20)) == plain(written)

    asyncio.run(scenario())


def test_a_cancelled_append_takes_effect_and_the_next_one_waits_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            place.workers.hold(Pool.APPEND)
            made = entries_after(0, 0, [Spec(), Spec()])
            task = asyncio.get_running_loop().create_task(log.append(made))
            await steps()
            assert (log.pending_index, log.dirty_index) == (2, 0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            place.workers.release(Pool.APPEND)
            waiting = asyncio.get_running_loop().create_task(log.append(entries_after(2, 2, [Spec()])))
            await waiting
            assert log.dirty_index == 3
            assert plain(await log.read(Index(1), 1 << 20, Index(2))) == plain(made)

    asyncio.run(scenario())


def test_damage_in_a_segment_is_named_and_never_returned(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            written = await append(log, *[Spec()] * 4)
            path, start, end = place.spans()[3]
            content = bytearray(path.read_bytes())
            content[end - 1] ^= 1
            path.write_bytes(content)
            assert plain(await log.read(Index(1), 1 << 20)) == plain(written[:2]), "what lies before it is good"
            with pytest.raises(CorruptLogError, match=f"byte {start}"):
                await log.read(Index(3), 1 << 20)

    asyncio.run(scenario())


def test_the_owner_is_told_of_damage_once_for_each_segment_whoever_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, *[Spec(size=200)] * 8)
            await log.flush()
            told: list[str | None] = []
            log.health.on_damage = lambda error: told.append(error.path)
            paths = sorted(place.directory.glob("*.log"))[:2]
            second = next(index for index, (path, _, _) in place.spans().items() if path == paths[1])
            for path in paths:
                content = bytearray(path.read_bytes())
                content[HEADER_BYTES + 40] ^= 1
                path.write_bytes(content)
            for index in (1, second, 1, second):
                with pytest.raises(CorruptLogError, match="is damaged at byte 0"):
                    await log.read(Index(index), 1)
            with pytest.raises(CorruptLogError):
                await log.reader.offset_of_timestamp(0, log.dirty_index)
            # A lookup by offset reads headers only, which are whole.
            assert await log.reader.index_of_offset(Offset(0)) == 1
            assert told == [str(path) for path in paths]
            lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
            assert [f"{path} is damaged at byte 0" in line for path, line in zip(paths, lines, strict=True)] == [
                True
            ] * 2

    asyncio.run(scenario())


def test_a_disk_that_cannot_be_read_is_a_named_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, Spec(), Spec())
            place.disk.fail("pread", ".log")
            with pytest.raises(CorruptLogError, match="cannot be read"):
                await log.read(Index(1), 1)
            assert len(await log.read(Index(1), 1)) == 1

    asyncio.run(scenario())


def test_a_closed_log_refuses_and_closes_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        log = await place.open()
        await append(log, Spec(), Spec())
        await log.close()
        await log.close()
        assert log.flushed_index == 2
        for refused in (append(log, Spec()), log.truncate(Index(1)), log.read(Index(1), 1), log.flush()):
            with pytest.raises(StorageError, match="closed"):
                await refused

    asyncio.run(scenario())


@pytest.mark.parametrize("pool", [Pool.READ, Pool.APPEND])
def test_closing_waits_for_what_is_under_way_and_answers_its_callers(tmp_path: Path, pool: Pool) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        log = await place.open()
        written = await append(log, Spec(), Spec())
        loop = asyncio.get_running_loop()
        place.workers.hold(pool)
        read, write = loop.create_task(log.read(Index(1), 1 << 20)), loop.create_task(append(log, Spec()))
        await steps()
        closing = loop.create_task(log.close())
        await steps()
        assert not closing.done()
        place.workers.release(pool)
        await closing
        async with asyncio.timeout(5):
            written += await write
            run = plain(await read)
        assert run == plain(written[: len(run)])
        assert len(run) >= 2
        assert place.disk.opened == {}
        assert log.flushed_index == 3

    asyncio.run(scenario())


def test_what_a_read_has_no_room_for_is_not_read_from_the_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=500_000)
        async with place.opened() as log:
            written = await append(log, *[Spec(size=100_000) for _ in range(8)], Spec())
            size = written[0].size
            # Four in a segment: the next one is in the same file, or in the next.
            for first, count in ((1, 1), (3, 1), (2, 2), (3, 2), (4, 1), (4, 2)):
                place.disk.calls.clear()
                run = await log.read(Index(first), count * size)
                assert plain(run) == plain(written[first - 1 : first - 1 + count])
                preads = sum(call == "pread" for call, _ in place.disk.calls)
                assert preads <= count

    asyncio.run(scenario())
