"""The world of one seed: nodes, clock, wire, disks, chance; and the order in which everything happens."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from runtime.environment import Environment
from tests.simulation.world.sim_disk import SimDisk, SimFileSystem
from tests.simulation.world.sim_network import SimNetwork
from tests.simulation.world.sim_switch import Switch
from tests.simulation.world.sim_workers import SimWorkers
from tests.simulation.world.trace import Detail, Trace
from tests.simulation.world.virtual_loop import Entry, Scheduler, VirtualLoop

T = TypeVar("T")

_EPOCH_MS = 1_700_000_000_000
# Largest difference between two nodes' monotonic clocks, in seconds.
_MAX_CLOCK_OFFSET = 10_000.0


class SimulationError(AssertionError):
    """Something in a simulated node failed that nobody handled."""


@dataclass(frozen=True)
class Failure:
    """What reached a node's loop unhandled, at virtual second `time`."""

    time: float
    node_id: int | None
    message: str
    exception: BaseException | None


class SimWallClock:
    """`runtime.clock.WallClock`: world time plus an offset that can be stepped."""

    def __init__(self, scheduler: Scheduler, offset_ms: int = 0) -> None:
        self.offset_ms = offset_ms
        self._scheduler = scheduler

    def now_ms(self) -> int:
        return _EPOCH_MS + self.offset_ms + int(self._scheduler.time * 1000)

    def step(self, milliseconds: int) -> None:
        """Jump, in either direction."""
        self.offset_ms += milliseconds


class SimNode:
    """A machine: its disk, host address and wall clock stay; loop, environment and workers are one process's."""

    def __init__(self, world: "World", node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.disk = SimDisk(node_id, world.stream(f"disk/{node_id}"), world.trace)
        self.host = world.network.add_host(node_id)
        self.wall_clock = SimWallClock(world.scheduler)
        self.incarnation = 0
        self.loop: VirtualLoop
        self.workers: SimWorkers
        self.environment: Environment
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._start_process()

    @property
    def address(self) -> str:
        """The host string that others dial."""
        return self.host.address

    @property
    def is_alive(self) -> bool:
        return not self.loop.dead

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str = "main") -> "asyncio.Task[T]":
        """Run `coroutine` in the node's process; what it raises is a failure of the run."""
        task = self.loop.create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._reap)
        return task

    def crash(self, *, power_loss: bool) -> None:
        """End the process: by SIGKILL (page cache stays, peers are told) or with the whole machine."""
        if self.loop.dead:
            return
        self.world.trace.record("crash", self.node_id, power_loss)
        self.loop.kill()
        self.world.graveyard.append(self.loop)
        self._tasks = {}
        self.world.network.process_died(self.host, power_loss=power_loss)
        self.disk.locks.clear()
        if power_loss:
            self.disk.lose_power()

    def restart(self) -> None:
        """Start a new process on the same disk: new loop, environment and random stream, nothing spawned."""
        assert self.loop.dead, "crash it first"
        self.world.trace.record("restart", self.node_id, self.incarnation + 1)
        self._start_process()
        self.world.network.power_on(self.host)

    def pause(self) -> None:
        """SIGSTOP: the process stands still; its kernel goes on accepting connections and bytes."""
        self.world.trace.record("pause", self.node_id, None)
        self.loop.pause()

    def stall_loop(self) -> None:
        """The loop of the process runs nothing until `resume`; its threads and its kernel go on."""
        self.world.trace.record("stall", self.node_id, None)
        self.loop.pause(threads_run=True)

    def resume(self) -> None:
        """SIGCONT, or the end of a stall."""
        self.world.trace.record("resume", self.node_id, None)
        self.loop.resume()

    def _start_process(self) -> None:
        self.incarnation += 1
        rng = self.world.stream(f"node/{self.node_id}/{self.incarnation}")
        offset = rng.uniform(0.0, _MAX_CLOCK_OFFSET)
        loop = VirtualLoop(self.world.scheduler, self._on_failure, offset)  # type: ignore[abstract]
        self.loop = loop
        self.workers = SimWorkers(loop, self.disk, self.world.stream(f"workers/{self.node_id}/{self.incarnation}"))
        self.environment = Environment(
            self.wall_clock,
            SimFileSystem(self.disk, loop),
            SimNetwork(self.world.network, self.host, loop),
            rng,
            self.workers,
        )

    def _reap(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": f"{task.get_name()} died", "exception": error})

    def _on_failure(self, context: dict[str, Any]) -> None:
        self.world.fail(self.node_id, str(context.get("message")), context.get("exception"))


class World:
    """Everything a seed decides. Use as a context manager, or `close` it: dead tasks are kept until then."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.scheduler = Scheduler()
        self.trace = Trace(self.scheduler)
        self.network = Switch(self.scheduler, self.stream("network"), self.trace)
        self.nodes: dict[int, SimNode] = {}
        # Machines on which no broker runs; nothing is done to them.
        self.clients: dict[int, SimNode] = {}
        self.failures: list[Failure] = []
        self.graveyard: list[VirtualLoop] = []

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def time(self) -> float:
        """Virtual seconds since the beginning."""
        return self.scheduler.time

    def stream(self, name: str) -> random.Random:
        """Return a new generator for `name`: a draw more in one stream moves no other."""
        # Seeding by a string hashes it with SHA-512, not with the process's random hash.
        return random.Random(f"{self.seed}/{name}")

    def add_node(self, node_id: int) -> SimNode:
        """Add a machine with an empty disk and a running process in which nothing is spawned yet."""
        assert node_id not in self.nodes
        node = self.nodes[node_id] = SimNode(self, node_id)
        return node

    def add_client(self, node_id: int) -> SimNode:
        """Add a machine for clients, as `add_node` does for a broker."""
        assert node_id not in self.nodes
        assert node_id not in self.clients
        machine = self.clients[node_id] = SimNode(self, node_id)
        return machine

    def node(self, node_id: int) -> SimNode:
        return self.nodes[node_id]

    def at(self, when: float, callback: Callable[..., object], *args: Any) -> Entry:
        """Call `callback` outside any node at virtual second `when`; the entry can be cancelled."""
        return self.scheduler.at(when, callback, *args)

    def after(self, delay: float, callback: Callable[..., object], *args: Any) -> Entry:
        return self.scheduler.at(self.scheduler.time + delay, callback, *args)

    def fail(self, node_id: int | None, message: str, exception: BaseException | None = None) -> None:
        """Note a failure; the run ends with the current instant."""
        self.trace.record("failure", node_id, message)
        self.failures.append(Failure(self.time, node_id, message, exception))
        self.scheduler.stopped = True

    def run_until(self, goal: float | Callable[[], bool], deadline: float | None = None) -> bool:
        """Run to virtual second `goal`, or until the predicate `goal` holds, at most to `deadline`.

        The predicate is asked at the end of every instant at which something happened.
        Returns whether the goal was reached; False also after a failure (see `check`), and from then on at
        once, without time passing.
        """
        if callable(goal):
            assert deadline is not None
            return self.scheduler.run(deadline, goal)
        return self.scheduler.run(goal)

    def run(self, node: SimNode, coroutine: Coroutine[Any, Any, T], *, seconds: float = 60.0) -> T:
        """Run `coroutine` on `node` and return its result.

        Raises:
            SimulationError: It did not end in `seconds`, or something else failed meanwhile.
        """
        task: asyncio.Task[T] = node.loop.create_task(coroutine, name="run")
        done = self.run_until(task.done, self.time + seconds)
        self.check()
        if not done:
            raise SimulationError(f"not done after {seconds} virtual seconds: {coroutine}")
        return task.result()

    def check(self) -> None:
        """Raise the first failure.

        Raises:
            SimulationError: With the failure's exception as its cause.
        """
        if self.failures:
            first = self.failures[0]
            raise SimulationError(
                f"seed {self.seed}, second {first.time:.6f}, node {first.node_id}: {first.message}"
            ) from first.exception

    def record(self, kind: str, node_id: int | None, detail: Detail) -> None:
        self.trace.record(kind, node_id, detail)

    def close(self) -> None:
        """End every process and let go of what they held."""
        for node in (*self.nodes.values(), *self.clients.values()):
            if not node.loop.dead:
                node.loop.kill()
                self.graveyard.append(node.loop)
        for loop in self.graveyard:
            loop.bury()
        self.graveyard.clear()
        self.scheduler.clear()
