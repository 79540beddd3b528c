"""Truncation: positions, files and what happens beside it."""

import asyncio
import errno
from pathlib import Path

import pytest
from log_harness import IDENTITY, Place, Spec, append, barrier, everything, flip, plain, steps

import storage.log_jobs
from model.ids import Index, Offset, Term
from runtime.environment import system_environment
from runtime.workers import HungWorkersError, Pool
from storage.entry import Entry, EntryKind
from storage.errors import LogPoisonedError
from storage.log import Log
from storage.options import LogOptions


@pytest.mark.parametrize("first_removed", range(1, 10))
def test_what_lies_before_stays_and_what_follows_is_new(tmp_path: Path, first_removed: int) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, barrier(1), *[Spec(size=13)] * 5, barrier(2), *[Spec(term=2, size=13)] * 2)
            await log.truncate(Index(first_removed))
            kept = written[: first_removed - 1]
            assert log.dirty_index == log.pending_index == first_removed - 1
            assert log.next_offset == (kept[-1].end_offset if kept else 0)
            assert log.last_term == log.pending_term == (kept[-1].term if kept else 0)
            assert log.unflushed_bytes == log.size_bytes == sum(entry.size for entry in kept)
            assert await everything(log) == plain(kept)
            kept += await append(log, barrier(3), *[Spec(term=3, records=2, size=13)] * 3)
            assert await everything(log) == plain(kept)
        async with place.opened() as log:
            assert await everything(log) == plain(kept)
            assert log.truncations == 0

    asyncio.run(scenario())


def test_flushed_follows_the_last_index_down(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, *[Spec()] * 4)
            await log.flush()
            await append(log, *[Spec()] * 2)
            await log.truncate(Index(6))
            assert (log.flushed_index, log.dirty_index) == (4, 5)
            assert log.unflushed_bytes == log.size_bytes // 5
            await log.truncate(Index(3))
            assert (log.flushed_index, log.dirty_index, log.unflushed_bytes) == (2, 2, 0)
            assert log.truncations == 2

    asyncio.run(scenario())


def test_positions_are_right_after_a_restart_when_memory_holds_no_end_offsets(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            written = await append(log, *[Spec(records=3)] * 8)
        async with place.opened() as log:
            assert log.end_offset(Index(4)) is None
            place.workers.hold(Pool.APPEND)
            task = asyncio.get_running_loop().create_task(log.truncate(Index(5)))
            await steps()
            # The files are not cut yet; the positions agree with each other all the same.
            assert (log.dirty_index, log.next_offset, log.end_offset(Index(4))) == (4, 12, 12)
            assert await everything(log) == plain(written[:4])
            place.workers.release(Pool.APPEND)
            await task
            assert await log.reader.locate_end_offset(Index(2)) == 6

    asyncio.run(scenario())


def test_segments_go_newest_first_each_durably_and_the_cut_comes_last(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, *[Spec(size=13)] * 8)
            await log.flush()
            await steps()
            first, second, third, fourth = place.names()
            place.disk.calls.clear()
            await log.truncate(Index(4))
            directory = place.directory.name
            calls = [call for call in place.disk.calls if call[0] in ("unlink", "fsync_dir", "truncate", "fsync")]
            index = [name.replace(".log", ".index") for name in (first, second, third, fourth)]
            assert calls == [
                ("unlink", fourth),
                ("fsync_dir", directory),
                ("unlink", index[2]),
                ("unlink", third),
                ("fsync_dir", directory),
                ("unlink", index[1]),
                ("fsync_dir", directory),
                ("truncate", second),
                ("fsync", second),
            ]
            assert place.names(".index") == [index[0]]

    asyncio.run(scenario())


def test_the_segment_that_becomes_active_again_gets_a_new_index_file_when_it_is_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, *[Spec(size=13)] * 4)
            await log.flush()
            await steps()
            assert len(place.names(".index")) == 1
            await log.truncate(Index(2))
            assert place.names(".index") == []
            written = written[:1] + await append(log, *[Spec(term=1, size=23)] * 4)
            await log.flush()
            await steps()
            assert len(place.names(".index")) == len(place.names()) - 1
        async with place.opened() as log:
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_a_segment_whose_data_was_all_removed_takes_data_of_another_term(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, barrier(1), Spec(term=1))
            await log.truncate(Index(2))
            await append(log, barrier(2), Spec(term=2))
            assert place.bases() == [(1, 1)]

    asyncio.run(scenario())


def test_damage_found_by_a_truncation_poisons_and_moves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, index_interval_bytes=10_000)
        async with place.opened() as log:
            await append(log, *[Spec()] * 4)
            path, start, _ = place.spans()[2]
            flip(path, start + 5)
            with pytest.raises(LogPoisonedError, match="cannot be truncated"):
                await log.truncate(Index(4))
            assert (log.dirty_index, log.truncations, log.is_poisoned) == (4, 0, True)
            with pytest.raises(LogPoisonedError):
                await append(log, Spec())

    asyncio.run(scenario())


@pytest.mark.parametrize("call", ["unlink", "fsync_dir", "truncate", "fsync"])
def test_a_disk_error_in_a_truncation_poisons(tmp_path: Path, call: str) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, *[Spec(size=13)] * 6)
            await log.flush()
            await steps()
            place.disk.fail(call, place.directory.name if call == "fsync_dir" else ".log", errno.EIO)
            with pytest.raises(LogPoisonedError, match="truncation failed"):
                await log.truncate(Index(2))
            assert log.is_poisoned
        # Whatever is left is a prefix that can be truncated again.
        async with place.opened() as log:
            assert await everything(log) == plain(written[: log.dirty_index])
            assert log.dirty_index >= 1

    asyncio.run(scenario())


def test_a_cancelled_truncation_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, *[Spec(size=13)] * 6)
            place.workers.hold(Pool.APPEND)
            task = asyncio.get_running_loop().create_task(log.truncate(Index(2)))
            await steps()
            task.cancel()
            await steps()
            assert task.cancelled()
            place.workers.release(Pool.APPEND)
            written = written[:1] + await append(log, Spec(size=99))
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


@pytest.mark.parametrize("after", [False, True])
def test_a_read_that_meets_a_truncation_returns_what_is_there_now(tmp_path: Path, after: bool) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            written = await append(log, *[Spec(size=13)] * 6)
            loop = asyncio.get_running_loop()
            place.workers.hold(Pool.READ, after=after)
            asked = [
                log.read(Index(1), 1 << 20),
                log.reader.index_of_offset(log.next_offset - 1),
                log.reader.offset_of_timestamp(1000, Index(6)),
                log.reader.max_timestamp(Index(5)),
            ]
            tasks = [loop.create_task(each) for each in asked]
            await steps()
            # The truncation's own look-up must not wait for the reads.
            truncation = loop.create_task(truncate_and_replace(log))
            await steps()
            place.workers.release(Pool.READ)
            replaced = await truncation
            run, index, hit, largest = await asyncio.gather(*tasks)
            expected = plain(written[:2] + replaced)
            assert plain(run) == expected[: len(run)]
            assert len(run) >= 2
            assert index == log.dirty_index + 1, "the offset does not exist any more"
            assert hit == (0, 1000, 1)
            assert largest == 7777

    async def truncate_and_replace(log: Log):
        await log.truncate(Index(3))
        return await append(log, Spec(term=2, size=13, timestamp=7777))

    asyncio.run(scenario())


def test_a_removed_file_stays_open_until_its_last_reader_has_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=300)
        async with place.opened() as log:
            await append(log, *[Spec(size=13)] * 6)
            loop = asyncio.get_running_loop()
            place.workers.hold(Pool.READ)
            read = loop.create_task(log.read(Index(5), 1 << 20))
            await steps()
            await log.truncate(Index(3))  # At a segment's begin: nothing is read for it.
            assert len(place.disk.opened) == 3
            place.workers.release(Pool.READ)
            assert await read == []
            await steps()
            assert len(place.disk.opened) == 1

    asyncio.run(scenario())


def test_a_log_can_be_truncated_to_nothing_and_begun_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened() as log:
            await append(log, *[Spec()] * 3)
            await log.truncate(Index(1))
            assert (log.dirty_index, log.last_term, log.next_offset, log.size_bytes) == (0, 0, 0, 0)
            assert place.names() == []
            written = await append(log, Spec(term=4))
            assert log.term_at(Index(1)) == Term(4)
            assert await everything(log) == plain(written)

    asyncio.run(scenario())


def test_threads_reads_and_truncations_race_and_nothing_false_is_read(tmp_path: Path) -> None:
    """Real threads: readers must see, for each (index, term), the one payload that was ever written under it."""

    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=2000)
        env = system_environment()
        log = await Log.open(env, str(place.directory), IDENTITY, place.options)
        term, stop = 1, False

        async def reader() -> int:
            count = 0
            while not stop:
                truncations = log.truncations
                first = Index(1 + count % max(1, log.dirty_index))
                run = await log.read(first, 3000)
                for entry in run:
                    assert entry.kind is EntryKind.COMMAND
                    assert bytes(entry.payload) == b"%d/%d" % (entry.index, entry.term) * 20
                    if truncations == log.truncations:
                        assert log.term_at(entry.index) == entry.term
                count += 1
                await asyncio.sleep(0)
            return count

        readers = [asyncio.get_running_loop().create_task(reader()) for _ in range(3)]
        for term in range(1, 60):
            made = [
                Entry(Index(index), Term(term), EntryKind.COMMAND, Offset(0), 0, b"%d/%d" % (index, term) * 20)
                for index in range(log.dirty_index + 1, log.dirty_index + 31)
            ]
            await log.append(made)
            flush = asyncio.get_running_loop().create_task(log.flush())
            await log.truncate(Index(max(1, log.dirty_index - term % 29)))
            await flush
        stop = True
        assert all(count > 0 for count in await asyncio.gather(*readers))
        await log.close()
        env.workers.close()

    asyncio.run(scenario())


def test_a_truncation_waits_while_no_thread_can_read(tmp_path: Path, monkeypatch) -> None:
    """Whoever truncates has forgotten the entries by then: a refusal would leave them in the log alone."""
    monkeypatch.setattr(storage.log_jobs, "_INSIST_PAUSE", 0.01)

    async def scenario() -> None:
        env = system_environment()
        log = await Log.open(env, str(tmp_path / "0123-7"), IDENTITY, LogOptions())
        await append(log, *[Spec(term=1)] * 20)
        refused = 0
        read = env.workers.run

        async def run(pool, job):
            nonlocal refused
            if pool is Pool.READ and refused < 5:
                refused += 1
                raise HungWorkersError(errno.EBUSY, "8 reads of the disk hang")
            return await read(pool, job)

        monkeypatch.setattr(env.workers, "run", run)
        await log.truncate(Index(10))
        assert refused == 5
        assert not log.is_poisoned
        assert log.dirty_index == log.pending_index == 9
        await log.close()
        env.workers.close()

    asyncio.run(scenario())
