"""Threads that hang in the disk give their places to others, up to a bound."""

import asyncio
import threading
from collections.abc import Callable

import pytest

import runtime.workers
from runtime.workers import HUNG_READS_MAX, POOL_THREADS, HungWorkersError, Pool, ThreadWorkers

THREADS = POOL_THREADS[Pool.READ]


@pytest.fixture
def is_answering(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    monkeypatch.setattr(runtime.workers, "HUNG_READ_SECONDS", 0.01)
    return threading.Event()


async def _hang(workers: ThreadWorkers, count: int, job: Callable[[], object]) -> list[asyncio.Future[object]]:
    hung = [asyncio.ensure_future(workers.run(Pool.READ, job)) for _ in range(count)]
    async with asyncio.timeout(30):
        while workers._hung_reads < count:
            await asyncio.sleep(0.001)
    return hung


def test_other_reads_go_on_while_as_many_hang_as_there_are_threads(is_answering: threading.Event) -> None:
    async def scenario() -> None:
        workers = ThreadWorkers()
        hung = await _hang(workers, THREADS, is_answering.wait)
        async with asyncio.timeout(30):
            assert await workers.run(Pool.READ, lambda: "read") == "read"
        is_answering.set()
        await asyncio.gather(*hung)
        assert workers._hung_reads == 0
        workers.close()

    asyncio.run(scenario())


def test_no_read_is_begun_while_too_many_hang(is_answering: threading.Event) -> None:
    async def scenario() -> None:
        workers = ThreadWorkers()
        hung = await _hang(workers, HUNG_READS_MAX, is_answering.wait)
        with pytest.raises(HungWorkersError, match=f"{HUNG_READS_MAX} reads of the disk hang"):
            await workers.run(Pool.READ, lambda: None)
        assert await workers.run(Pool.FSYNC, lambda: "fsync") == "fsync"
        is_answering.set()
        await asyncio.gather(*hung)
        assert await workers.run(Pool.READ, lambda: "read") == "read"
        workers.close()

    asyncio.run(scenario())


def test_a_place_is_given_back_once_whoever_waits_or_not(is_answering: threading.Event) -> None:
    async def scenario() -> None:
        workers = ThreadWorkers()
        for waiting in await _hang(workers, THREADS, is_answering.wait):
            waiting.cancel()
        is_answering.set()
        async with asyncio.timeout(30):
            while workers._hung_reads:
                await asyncio.sleep(0.001)
        assert workers._free_reads == THREADS
        assert not workers._waiting_reads
        workers.close()

    asyncio.run(scenario())


def test_whoever_waits_for_a_thread_is_refused_once_too_many_reads_hang(is_answering: threading.Event) -> None:
    async def scenario() -> None:
        workers = ThreadWorkers()
        # As many hang as may, and those that got the last places of these hold them.
        begun = HUNG_READS_MAX + THREADS
        reads = [asyncio.ensure_future(workers.run(Pool.READ, is_answering.wait)) for _ in range(begun + 3)]
        async with asyncio.timeout(30):
            for refused in reads[begun:]:
                with pytest.raises(HungWorkersError):
                    await refused
        is_answering.set()
        await asyncio.gather(*reads[:begun], return_exceptions=True)
        assert workers._free_reads == THREADS
        assert not workers._waiting_reads
        workers.close()

    asyncio.run(scenario())


def test_a_read_that_is_cancelled_in_line_takes_no_place() -> None:
    async def scenario() -> None:
        workers, goes_on = ThreadWorkers(), threading.Event()
        running = [asyncio.ensure_future(workers.run(Pool.READ, goes_on.wait)) for _ in range(THREADS)]
        await asyncio.sleep(0)  # The tasks take their first step.
        waiting = [asyncio.ensure_future(workers.run(Pool.READ, goes_on.wait)) for _ in range(2)]
        await asyncio.sleep(0)  # The tasks take their first step.
        waiting[0].cancel()
        goes_on.set()
        assert await waiting[1]
        await asyncio.gather(*running)
        assert workers._free_reads == THREADS
        assert not workers._waiting_reads
        workers.close()

    asyncio.run(scenario())
