"""The loop, the world around it, and the promise that a seed decides everything."""

import asyncio
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runtime.gate import Gate
from runtime.workers import Pool
from tests.simulation.world.sim_transport import SimTransport
from tests.simulation.world.virtual_loop import LivelockError
from tests.simulation.world.world import SimNode, SimulationError, World

_ROOT = Path(__file__).parents[3]


def test_sleep_costs_virtual_time_only() -> None:
    with World(1) as world:

        async def main() -> float:
            loop = asyncio.get_running_loop()
            begin = loop.time()
            await asyncio.sleep(3600.0)
            return loop.time() - begin

        assert world.run(world.add_node(1), main(), seconds=4000.0) == pytest.approx(3600.0)
        assert world.time == pytest.approx(3600.0)


def test_asyncio_tools_work() -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []
        event, lock, semaphore = asyncio.Event(), asyncio.Lock(), asyncio.Semaphore(2)
        queue: asyncio.Queue[int] = asyncio.Queue(1)

        async def worker(number: int) -> int:
            await event.wait()
            async with semaphore, lock:
                await asyncio.sleep(0.1)
                await queue.put(number)
            return number

        async def fail() -> None:
            raise KeyError

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await event.wait()
        group = asyncio.gather(*(worker(i) for i in range(4)))
        event.set()
        seen.extend([await queue.get() for _ in range(4)])
        seen.append(await group)
        inner = loop.create_task(asyncio.sleep(1.0, "inner"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.shield(inner)
        seen.append(await inner)

        async def failing_group() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(asyncio.sleep(9.0))
                tasks.create_task(fail())

        with pytest.raises(ExceptionGroup):
            await failing_group()
        return seen

    with World(1) as world:
        assert world.run(world.add_node(1), main()) == [0, 1, 2, 3, [0, 1, 2, 3], "inner"]
        assert world.time < 5.0


def test_handles_run_in_the_order_of_time_then_of_insertion() -> None:
    with World(1) as world:
        loop = world.add_node(1).loop
        order: list[str] = []
        due = loop.time() + 1.0
        loop.call_at(due + 0.5, order.append, "late")
        loop.call_at(due, order.append, "first")
        loop.call_at(due, order.append, "cancelled").cancel()
        loop.call_at(due, order.append, "second")
        loop.call_soon(order.append, "now")
        loop.call_soon(order.append, "now too")
        world.run_until(5.0)
        assert order == ["now", "now too", "first", "second", "late"]


def test_a_timer_never_fires_before_its_own_clock_shows_its_time() -> None:
    with World(2) as world:
        loop = world.add_node(1).loop
        early: list[float] = []

        def check(when: float) -> None:
            if loop.time() < when:
                early.append(when)

        for i in range(1000):
            when = loop.time() + i / 7
            loop.call_at(when, check, when)
        world.run_until(200.0)
        assert early == []


def test_cancelled_timers_do_not_pile_up() -> None:
    with World(1) as world:
        loop = world.add_node(1).loop
        for _ in range(10_000):
            loop.call_later(1000.0, print).cancel()
        assert len(world.scheduler._heap) < 2000


async def _stubborn(log: list[str], node: SimNode) -> None:
    try:
        await asyncio.sleep(100.0)
    finally:
        log.append("finally")
        await asyncio.sleep(1.0)
        node.environment.files.mkdir("/ghost")


def test_a_killed_process_runs_no_finally_and_leaves_no_warning() -> None:
    log: list[str] = []
    with World(1) as world:
        node = world.add_node(1)
        gate = Gate("gate")

        async def main() -> None:
            gate.spawn(_stubborn(log, node), name="stubborn")
            await _stubborn(log, node)

        node.spawn(main())
        world.run_until(1.0)
        old_loop = node.loop
        node.crash(power_loss=False)
        world.run_until(500.0)
        assert log == []
        assert old_loop.call_soon(log.append, "ghost").cancelled()
        node.restart()
        world.run_until(1000.0)
        assert log == []
        assert not node.environment.files.exists("/ghost")
        assert world.failures == []


def test_a_paused_process_runs_its_timers_late() -> None:
    with World(1) as world:
        node = world.add_node(1)
        fired: list[float] = []
        node.loop.call_later(1.0, lambda: fired.append(world.time))
        node.pause()
        world.run_until(10.0)
        assert fired == []
        node.resume()
        world.run_until(10.0)
        assert fired == [10.0]


def test_an_unhandled_error_ends_the_run() -> None:
    async def fail() -> None:
        await asyncio.sleep(1.0)
        raise KeyError("lost")

    with World(1) as world:
        node = world.add_node(1)
        node.spawn(fail())
        assert not world.run_until(100.0)
        assert world.time == pytest.approx(1.0)
        assert [failure.node_id for failure in world.failures] == [1]
        with pytest.raises(SimulationError):
            world.check()


def test_a_predicate_ends_the_run_and_a_deadline_ends_the_wait() -> None:
    with World(1) as world:
        seen: list[int] = []
        world.at(3.0, seen.append, 1)
        assert world.run_until(lambda: bool(seen), 10.0)
        assert world.time == 3.0
        assert not world.run_until(lambda: len(seen) > 1, 10.0)
        assert world.time == 10.0


def test_a_loop_that_never_lets_time_pass_is_found() -> None:
    with World(1) as world:
        loop = world.add_node(1).loop

        def again() -> None:
            loop.call_soon(again)

        again()
        with pytest.raises(LivelockError):
            world.run_until(1.0)


def test_the_wall_clock_follows_the_world_and_can_be_stepped() -> None:
    with World(1) as world:
        clock = world.add_node(1).wall_clock
        begin = clock.now_ms()
        world.run_until(2.0)
        assert clock.now_ms() - begin == 2000
        clock.step(-5000)
        assert clock.now_ms() - begin == -3000


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def _busy(node: SimNode, peers: list[str]) -> None:
    environment = node.environment
    files = environment.files
    await environment.network.listen(node.address, 9000, _Echo)
    files.mkdir("/data")
    if not files.exists("/data/log"):
        files.open("/data/log", create=True).close()
    file = files.open("/data/log")

    async def talk(peer: str) -> None:
        while True:
            try:
                async with asyncio.timeout(1.0):
                    transport = await environment.network.connect(peer, 9000, _Echo)
                    transport.write(environment.rng.randbytes(100))
                    await asyncio.sleep(environment.rng.random())
                    transport.abort()
            except OSError:
                await asyncio.sleep(0.1)

    async def write() -> None:
        while True:
            data = environment.rng.randbytes(1000)
            await environment.workers.run(Pool.APPEND, partial(file.pwritev, [data], file.size()))
            await environment.workers.run(Pool.FSYNC, file.fsync)

    async with asyncio.TaskGroup() as group:
        for peer in peers:
            group.create_task(talk(peer))
        group.create_task(write())


def digest_of(seed: int) -> str:
    """Run a busy, faulty world and return its trace's digest."""
    with World(seed) as world:
        nodes = [world.add_node(i) for i in (1, 2, 3)]
        for node in nodes:
            node.spawn(_busy(node, [other.address for other in nodes if other is not node]))
        faults = world.stream("faults")
        while world.time < 20.0:
            node = nodes[faults.randrange(3)]
            node.crash(power_loss=faults.random() < 0.5)
            world.run_until(world.time + faults.random())
            node.restart()
            node.spawn(_busy(node, [other.address for other in nodes if other is not node]))
            world.network.cut(faults.randint(1, 3), faults.randint(1, 3))
            world.run_until(world.time + faults.random())
            world.network.heal_all()
            world.check()
        assert world.trace.count > 1000
        return world.trace.hexdigest


def test_a_seed_decides_everything_even_in_another_process() -> None:
    digests = {digest_of(5)}
    for hash_seed in ("1", "2"):
        code = "from tests.simulation.world.test_virtual_loop import digest_of; print(digest_of(5))"
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=_ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stderr == ""
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    assert digest_of(6) not in digests
