"""Blocking jobs at drawn virtual instants, with the parallelism of the real pools."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from runtime.workers import POOL_THREADS, Pool
from tests.simulation.sim_disk import SimDisk
from tests.simulation.virtual_loop import VirtualLoop

T = TypeVar("T")

# Mean duration of a job, in seconds, on a healthy disk.
MEAN_SECONDS = {Pool.APPEND: 0.0002, Pool.FSYNC: 0.002, Pool.READ: 0.0002, Pool.KVSTORE: 0.002}


class _Threads:
    """One pool: what waits for its threads, and what they run."""

    __slots__ = ("count", "mean_seconds", "queue", "running", "stalled_until")

    def __init__(self, pool: Pool) -> None:
        self.count = POOL_THREADS[pool]
        self.mean_seconds = MEAN_SECONDS[pool]
        self.queue: deque[_Job] = deque()
        self.running: dict[_Job, None] = {}
        self.stalled_until = 0.0


class _Job:
    __slots__ = ("effect_done", "ends_at", "error", "future", "result", "threads", "work")

    def __init__(self, threads: _Threads, work: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.threads = threads
        self.work = work
        self.future = future
        self.effect_done = False
        self.ends_at = 0.0
        self.result: Any = None
        self.error: BaseException | None = None

    def take_effect(self) -> None:
        if self.effect_done:
            return
        self.effect_done = True
        running = asyncio._get_running_loop()
        # A worker thread has no running loop; a job that asks for one must fail here too.
        asyncio._set_running_loop(None)
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001 - as concurrent.futures does
            self.error = error
        finally:
            asyncio._set_running_loop(running)


class SimWorkers:
    """`runtime.workers.Workers` of one process.

    A job's whole effect happens at one instant between its begin and its end (often at one of them), so a
    crash can fall before the effect, or after it and before the caller knows.
    """

    def __init__(self, loop: VirtualLoop, disk: SimDisk, rng: random.Random) -> None:
        self._loop = loop
        self._disk = disk
        self._rng = rng
        self._pools = {pool: _Threads(pool) for pool in POOL_THREADS}
        self._closed = False

    def run_now(self, job: Callable[[], None]) -> bool:
        """Every job takes its time here: what may happen while it runs is what is looked for."""
        return False

    async def run(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run `job` and return its result; a cancelled caller does not stop a job that has begun."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: asyncio.Future[T] = self._loop.create_future()
        threads = self._pools[pool]
        threads.queue.append(_Job(threads, job, future))
        self._begin(threads)
        return await future

    def stall(self, pool: Pool, seconds: float) -> None:
        """Let no job of `pool` take effect or end for `seconds` (a hung fsync)."""
        threads = self._pools[pool]
        threads.stalled_until = max(threads.stalled_until, self._loop.scheduler.time + seconds)

    def all_ended_at(self) -> float:
        """Return when all jobs that have begun will have ended: a disk that is quick again does not hurry them."""
        ends = (max(job.ends_at, threads.stalled_until) for threads in self._pools.values() for job in threads.running)
        return max(ends, default=0.0)

    def close(self) -> None:
        """Drop what has not begun; what has takes effect now (the real one blocks until then)."""
        self._closed = True
        for threads in self._pools.values():
            for job in threads.queue:
                job.future.cancel()
            threads.queue.clear()
            for job in list(threads.running):
                job.take_effect()

    def _begin(self, threads: _Threads) -> None:
        queue, running = threads.queue, threads.running
        loop = self._loop
        while queue and len(running) < threads.count and not loop.dead:
            job = queue.popleft()
            if job.future.cancelled():
                continue
            running[job] = None
            draw = self._rng.random
            now = loop.scheduler.time
            # Uniform mostly, with a long tail now and then.
            duration = threads.mean_seconds * self._disk.slow_factor * 2.0 * draw()
            if draw() < 0.02:
                duration *= 20.0
            # A third of the effects at the begin, a third at the end, the others between.
            moment = 3.0 * draw() - 1.0
            if moment <= 0.0:
                self._effect(job)
            elif moment < 1.0:
                loop.post_at(now + duration * moment, self._effect, job)
            job.ends_at = now + duration
            loop.post_at(job.ends_at, self._end, job)

    def _effect(self, job: _Job) -> None:
        until = job.threads.stalled_until
        if until > self._loop.scheduler.time:
            self._loop.post_at(until, self._effect, job)
        else:
            job.take_effect()

    def _end(self, job: _Job) -> None:
        until = job.threads.stalled_until
        if until > self._loop.scheduler.time:
            self._loop.post_at(until, self._end, job)
            return
        job.take_effect()
        del job.threads.running[job]
        if not job.future.done():
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        self._begin(job.threads)
