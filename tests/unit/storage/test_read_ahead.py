"""Runs that are read from the files before a reader that goes on in order asks for them."""

import asyncio
from pathlib import Path

import pytest
from log_harness import Place, Spec, append, flip, plain, steps

from model.ids import Index
from runtime.workers import Pool
from storage.entry import Entry
from storage.errors import CorruptLogError
from storage.log import Log
from storage.read_ahead import ReadAheadBudget
from storage.read_cache import CacheBudgets, ReadCacheBudget
from storage.rows_budget import RowsBudget
from storage.tail_cache import TailBudget
from storage.verified_ranges import VerifiedBudget

RUN = 300
COUNT = 40


def budgets(ahead: int = 10_000) -> CacheBudgets:
    return CacheBudgets(TailBudget(1), ReadCacheBudget(0), ReadAheadBudget(ahead), VerifiedBudget(0), RowsBudget(0))


async def filled(log: Log) -> list[Entry]:
    return await append(log, *[Spec(size=20) for _ in range(COUNT)])


def reads(place: Place) -> int:
    return sum(call[0] == "pread" for call in place.disk.calls)


async def read_on(log: Log, first: int, runs: int) -> tuple[list[Entry], int]:
    """Read so many runs one after the other; return what was read, and where the next one begins."""
    found: list[Entry] = []
    for _ in range(runs):
        run = await log.read(Index(first), RUN)
        found += run
        first = run[-1].index + 1
        await steps()
    return found, first


def test_the_third_run_of_a_reader_in_order_waits_for_no_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets()
        place = Place(tmp_path, segment_bytes=100_000)
        async with place.opened(caches=shared) as log:
            written = await filled(log)
            found, first = await read_on(log, 1, 2)
            assert shared.ahead.used == RUN
            before = reads(place)
            run = await log.read(Index(first), RUN)
            assert reads(place) == before
            assert plain(found + run) == plain(written[: len(found) + len(run)])
            # And so on until the end, once each.
            rest, _ = await read_on(log, run[-1].index + 1, COUNT // len(run) - 3)
            assert plain(found + run + rest) == plain(written[: len(found + run + rest)])
        assert shared.ahead.used == 0

    asyncio.run(scenario())


def test_readers_out_of_order_make_nothing_be_read_ahead(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets()
        async with Place(tmp_path).opened(caches=shared) as log:
            await filled(log)
            for first in (1, 20, 10, 30, 25):
                await read_on(log, first, 1)
            assert shared.ahead.used == 0

    asyncio.run(scenario())


def test_a_reader_waits_for_what_is_being_read_ahead_and_reads_nothing_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path)
        async with place.opened(caches=budgets()) as log:
            written = await filled(log)
            _, first = await read_on(log, 1, 1)
            run = await log.read(Index(first), RUN)
            place.workers.hold(Pool.READ)
            await steps()
            waiting = asyncio.ensure_future(log.read(Index(run[-1].index + 1), RUN))
            await steps()
            assert not waiting.done()
            before = reads(place)
            place.workers.release(Pool.READ)
            entries = await waiting
            assert plain(entries) == plain(written[entries[0].index - 1 : entries[-1].index])
            assert reads(place) - before <= 2

    asyncio.run(scenario())


def test_what_was_read_ahead_of_a_truncation_is_never_returned(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets()
        async with Place(tmp_path).opened(caches=shared) as log:
            written = await filled(log)
            found, first = await read_on(log, 1, 2)
            assert shared.ahead.used
            await log.truncate(Index(first))
            replaced = await append(log, *[Spec(size=20, term=9) for _ in range(10)])
            run = await log.read(Index(first), RUN)
            assert plain(run) == plain(replaced[: len(run)])
            assert plain(found) == plain(written[: len(found)])
            await read_on(log, run[-1].index + 1, 1)
        assert shared.ahead.used == 0

    asyncio.run(scenario())


def test_damage_is_told_to_whoever_asks_for_it_and_not_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = Place(tmp_path, segment_bytes=100_000)
        async with place.opened(caches=budgets()) as log:
            await filled(log)
            told: list[CorruptLogError] = []
            log.health.on_damage = told.append
            _, first = await read_on(log, 1, 1)
            run = await log.read(Index(first), 1)
            path, begin, end = place.spans()[run[-1].index + 1]
            flip(path, (begin + end) // 2)
            await steps()
            with pytest.raises(CorruptLogError, match="damaged at byte"):
                await log.read(Index(run[-1].index + 1), RUN)
            assert len(told) == 1

    asyncio.run(scenario())


def test_without_room_in_the_budget_a_reader_reads_by_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets(ahead=RUN)
        async with Place(tmp_path).opened(caches=shared) as log:
            written = await filled(log)
            for first in (1, 20):
                await read_on(log, first, 2)
            assert shared.ahead.used == RUN
            found, _ = await read_on(log, 1, 8)
            assert plain(found) == plain(written[: len(found)])
            assert shared.ahead.used <= RUN
        assert shared.ahead.used == 0

    asyncio.run(scenario())


def test_a_reader_that_is_cancelled_gives_back_its_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        shared = budgets()
        place = Place(tmp_path)
        async with place.opened(caches=shared) as log:
            await filled(log)
            _, first = await read_on(log, 1, 1)
            place.workers.hold(Pool.READ)
            run = asyncio.ensure_future(log.read(Index(first), RUN))
            await steps()
            place.workers.release(Pool.READ)
            following = (await run)[-1].index + 1
            place.workers.hold(Pool.READ)
            waiting = asyncio.ensure_future(log.read(Index(following), RUN))
            await steps()
            waiting.cancel()
            await steps()
            place.workers.release(Pool.READ)
            await steps(100)
            assert shared.ahead.used == 0

    asyncio.run(scenario())
