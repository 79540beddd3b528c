"""The figures by which an operator sees that an event loop was held up."""

import asyncio
import gc
import time

from model.fixed_histogram import FixedHistogram
from raftka.broker.loop_watch import LoopWatch


def figures(watch: LoopWatch) -> dict[str, float]:
    """Return the values, and of each histogram how many it has seen and their sum."""
    found = {}
    for row in watch.rows(asyncio.get_running_loop().time()):
        if isinstance(row.value, FixedHistogram):
            found[f"{row.name}_count"], found[f"{row.name}_sum"] = row.value.count, row.value.sum
        else:
            found[row.name] = row.value
    return found


async def looked(watch: LoopWatch, times: int) -> None:
    wanted = watch.looks + times
    async with asyncio.timeout(30):
        while watch.looks < wanted:
            await asyncio.sleep(0)


def test_a_callback_that_holds_the_loop_is_seen_as_lag():
    async def scenario() -> dict[str, float]:
        watch = LoopWatch()
        watch.start()
        await looked(watch, 1)
        # Longer than the interval: a timer is certainly due meanwhile.
        time.sleep(0.2)
        await looked(watch, 1)
        found = figures(watch)
        watch.stop()
        return found

    found = asyncio.run(scenario())
    assert found["raftka_loop_lag_max_seconds"] >= 0.1
    assert found["raftka_loop_lag_seconds_sum"] >= found["raftka_loop_lag_max_seconds"]
    assert found["raftka_loop_lag_seconds_count"] >= 2


def test_a_collection_is_timed_and_nothing_is_after_the_stop():
    async def scenario() -> tuple[dict[str, float], dict[str, float]]:
        watch = LoopWatch()
        watch.start()
        gc.collect()
        watch.stop()
        watch.stop()
        before = figures(watch)
        gc.collect()
        return before, figures(watch)

    before, after = asyncio.run(scenario())
    assert before["raftka_gc_pause_max_seconds"] > 0
    assert before == after
