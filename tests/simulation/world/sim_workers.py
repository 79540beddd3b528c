"""Blocking jobs at drawn virtual instants, with the parallelism of the real pools."""

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from runtime.workers import POOL_THREADS, Pool
from tests.simulation.world.sim_disk import SimDisk
from tests.simulation.world.virtual_loop import VirtualLoop

T = TypeVar("T")

# Mean duration of a job, in seconds, on a healthy disk.
MEAN_SECONDS = {Pool.APPEND: 0.0002, Pool.FSYNC: 0.002, Pool.READ: 0.0002, Pool.KVSTORE: 0.002, Pool.WATCH: 0.0002}


class _Threads:
    """One pool: what waits for its threads, and what they run."""

    __slots__ = ("count", "held", "mean_seconds", "queue", "running", "stalled_until")

    def __init__(self, pool: Pool) -> None:
        self.count = POOL_THREADS[pool]
        self.mean_seconds = MEAN_SECONDS[pool]
        self.queue: deque[_Job] = deque()
        self.running: dict[_Job, None] = {}
        self.stalled_until = 0.0
        # What a stall holds up that only `mend` ends.
        self.held: list[tuple[Callable[[_Job], None], _Job]] = []


class _Job:
    __slots__ = ("changed_names", "effect_done", "ends_at", "error", "future", "hangs", "result", "threads", "work")

    def __init__(self, threads: _Threads, work: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.threads = threads
        self.work = work
        self.future = future
        self.effect_done = False
        self.hangs = False
        self.changed_names = False
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
        self._directories_hang = False

    def run_now(self, job: Callable[[], None]) -> bool:
        """Run `job` here where the disk says so, and is as quick as it should be.

        Where it does not, every job takes its time: what may happen while it runs is what is looked for then.
        """
        threads = self._pools[Pool.APPEND]
        is_slow = self._disk.slow_factor > 1.0 or threads.stalled_until > self._loop.scheduler.time or threads.held
        if self._closed or is_slow or not self._disk.runs_now:
            return False
        self._disk.counts["written on the loop"] += 1
        try:
            job()
        except OSError:
            self._disk.counts["refused on the loop"] += 1
            raise
        return True

    async def run(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run `job` and return its result; a cancelled caller does not stop a job that has begun."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: asyncio.Future[T] = self._loop.create_future()
        threads = self._pools[pool]
        threads.queue.append(_Job(threads, job, future))
        self._begin(threads)
        return await future

    def stall(self, pool: Pool, seconds: float = math.inf) -> None:
        """Let no job of `pool` take effect or end for `seconds`, or until `mend` (a hung fsync)."""
        threads = self._pools[pool]
        threads.stalled_until = max(threads.stalled_until, self._loop.scheduler.time + seconds)

    def hang(self, pool: Pool) -> int:
        """Let the jobs that run now neither take effect nor end until `mend`; return how many. Others take their turns."""
        running = [job for job in self._pools[pool].running if not job.effect_done]
        for job in running:
            job.hangs = True
        return len(running)

    def hang_directories(self) -> None:
        """Let no job end, until `mend`, that makes, renames or removes a name."""
        self._directories_hang = True

    def mend(self) -> None:
        """End what hangs until it is mended; a stall of so many seconds lasts as long as it was to."""
        self._directories_hang = False
        for threads in self._pools.values():
            self._mend(threads)

    def _mend(self, threads: _Threads) -> None:
        if threads.stalled_until == math.inf:
            threads.stalled_until = 0.0
        for job in threads.running:
            job.hangs = False
        held, threads.held = threads.held, []
        for go_on, job in held:
            self._post_at(self._loop.scheduler.time, go_on, job)

    def all_ended_at(self) -> float:
        """Return when all jobs that have begun, and all stalls, will have ended: a disk that is quick again hurries none."""
        stalls = [threads.stalled_until for threads in self._pools.values()]
        return max(*stalls, *(job.ends_at for threads in self._pools.values() for job in threads.running), 0.0)

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
                loop.post_to_thread_at(now + duration * moment, self._effect, job)
            job.ends_at = now + duration
            loop.post_at(job.ends_at, self._end, job)

    def _effect(self, job: _Job) -> None:
        if not self._is_held(self._effect, job):
            self._take_effect(job)

    def _take_effect(self, job: _Job) -> None:
        before = self._disk.names_changed
        job.take_effect()
        job.changed_names = self._disk.names_changed != before

    def _is_held(self, go_on: Callable[[_Job], None], job: _Job) -> bool:
        until = job.threads.stalled_until
        of_directory = self._directories_hang and job.changed_names
        if job.hangs or of_directory or until == math.inf:
            job.threads.held.append((go_on, job))
        elif until > self._loop.scheduler.time:
            self._post_at(until, go_on, job)
        else:
            return False
        return True

    def _post_at(self, when: float, go_on: Callable[[_Job], None], job: _Job) -> None:
        # What a job does is a thread's doing; its end is told to the loop.
        post = self._loop.post_at if go_on == self._end else self._loop.post_to_thread_at
        post(when, go_on, job)

    def _end(self, job: _Job) -> None:
        if not job.effect_done and not self._is_held(self._end, job):
            self._take_effect(job)
        if not job.effect_done or self._is_held(self._end, job):
            return
        del job.threads.running[job]
        if not job.future.done():
            if job.error is not None:
                job.future.set_exception(job.error)
            else:
                job.future.set_result(job.result)
        self._begin(job.threads)
