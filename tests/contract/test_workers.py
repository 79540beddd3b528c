"""What every Workers does; and what only the simulated one can show: a crash around a job's effect."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from runtime.workers import Pool, ThreadWorkers, Workers
from tests.simulation.world.world import World

Scenario = Callable[[Workers], Awaitable[Any]]
Runner = Callable[[Scenario], Any]


def _run_on_threads(scenario: Scenario) -> Any:
    async def main() -> Any:
        workers = ThreadWorkers()
        try:
            return await scenario(workers)
        finally:
            workers.close()

    return asyncio.run(main())


def _run_in_simulation(scenario: Scenario) -> Any:
    with World(3) as world:
        node = world.add_node(1)

        async def main() -> Any:
            return await scenario(node.workers)

        return world.run(node, main())


@pytest.fixture(params=[_run_on_threads, _run_in_simulation], ids=["os", "sim"])
def run(request: pytest.FixtureRequest) -> Runner:
    runner: Runner = request.param
    return runner


def test_a_job_returns_its_result(run: Runner) -> None:
    async def scenario(workers: Workers) -> list[int]:
        return await asyncio.gather(*(workers.run(Pool.READ, partial(pow, i, 2)) for i in range(20)))

    assert run(scenario) == [i * i for i in range(20)]


def test_a_job_raises_what_it_raises(run: Runner) -> None:
    def job() -> None:
        raise OSError(5, "EIO")

    async def scenario(workers: Workers) -> None:
        await workers.run(Pool.FSYNC, job)

    with pytest.raises(OSError, match="EIO"):
        run(scenario)


def test_a_cancelled_caller_does_not_stop_a_job_that_has_begun(run: Runner) -> None:
    began, release, done = threading.Event(), threading.Event(), threading.Event()
    if run is _run_in_simulation:
        # There a job begins when it is submitted, and its effect is one instant: it cannot block.
        began.set()
        release.set()

    def job() -> None:
        began.set()
        release.wait(30)
        done.set()

    async def scenario(workers: Workers) -> None:
        task = asyncio.get_running_loop().create_task(workers.run(Pool.FSYNC, job))
        async with asyncio.timeout(30):
            await asyncio.sleep(0)
            while not began.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            release.set()
            while not done.is_set():
                await asyncio.sleep(0.001)

    run(scenario)
    assert done.is_set()


def test_jobs_of_the_single_threaded_pool_take_effect_in_order(run: Runner) -> None:
    order: list[int] = []

    async def scenario(workers: Workers) -> None:
        await asyncio.gather(*(workers.run(Pool.KVSTORE, partial(order.append, i)) for i in range(50)))

    run(scenario)
    assert order == list(range(50))


def test_a_job_has_no_running_loop(run: Runner) -> None:
    async def scenario(workers: Workers) -> None:
        await workers.run(Pool.READ, asyncio.get_running_loop)

    with pytest.raises(RuntimeError, match="no running event loop"):
        run(scenario)


def test_closed_workers_take_no_job(run: Runner) -> None:
    async def scenario(workers: Workers) -> None:
        workers.close()
        await workers.run(Pool.READ, lambda: None)

    with pytest.raises(RuntimeError, match="shutdown"):
        run(scenario)


# The simulated workers only.


def test_jobs_of_one_pool_end_out_of_order() -> None:
    order: list[int] = []

    async def scenario(workers: Workers) -> None:
        async def one(i: int) -> None:
            await workers.run(Pool.FSYNC, lambda: None)
            order.append(i)

        await asyncio.gather(*(one(i) for i in range(20)))

    _run_in_simulation(scenario)
    assert sorted(order) == list(range(20)) != order


def test_a_crash_falls_before_the_effect_or_between_effect_and_completion() -> None:
    seen = set()
    for seed in range(60):
        with World(seed) as world:
            node = world.add_node(1)
            effects: list[str] = []

            async def scenario(node: Any = node, effects: list[str] = effects) -> None:
                await node.workers.run(Pool.FSYNC, lambda: effects.append("effect"))
                effects.append("completion")

            node.spawn(scenario())
            world.after(0.001, partial(node.crash, power_loss=False))
            world.run_until(1.0)
            seen.add(tuple(effects))
    assert seen == {(), ("effect",), ("effect", "completion")}


def test_a_job_that_has_not_begun_dies_with_its_process() -> None:
    with World(1) as world:
        node = world.add_node(1)
        node.workers.stall(Pool.KVSTORE, 10.0)
        effects: list[int] = []
        for i in range(3):
            node.spawn(node.workers.run(Pool.KVSTORE, partial(effects.append, i)))
        world.run_until(5.0)
        node.crash(power_loss=False)
        world.run_until(30.0)
        assert effects == []
        assert world.failures == []


def test_a_stalled_pool_goes_on_when_the_stall_ends_and_others_do_not_wait() -> None:
    with World(1) as world:
        node = world.add_node(1)
        node.workers.stall(Pool.FSYNC, 10.0)
        ended: dict[str, float] = {}

        async def one(pool: Pool) -> None:
            await node.workers.run(pool, lambda: None)
            ended[pool.value] = world.time

        node.spawn(one(Pool.FSYNC))
        node.spawn(one(Pool.READ))
        world.run_until(60.0)
        assert ended["read"] < 1.0
        assert 10.0 <= ended["fsync"] < 11.0
