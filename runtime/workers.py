"""Where blocking calls run: small separate thread pools, so that one kind never starves another.

CPU-bound Python must not run here: the GIL would make the event loop wait. What belongs here releases
the GIL in the kernel or in C: write, read, fsync, RocksDB's WAL sync.
"""

import asyncio
import errno
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Protocol, TypeVar

T = TypeVar("T")


class Pool(Enum):
    """Which pool a job runs in. The value is its number of threads; jobs of one pool start in FIFO order."""

    APPEND = "append"
    FSYNC = "fsync"
    READ = "read"
    KVSTORE = "kvstore"
    # Looks at the data directory as such, so that one which hangs holds up nothing else.
    WATCH = "watch"


POOL_THREADS = {Pool.APPEND: 4, Pool.FSYNC: 4, Pool.READ: 4, Pool.KVSTORE: 1, Pool.WATCH: 1}

# A quick job that takes longer than this was none. For a second, and for a hundred times as long as it took, no other
# is taken for one: a disk that hangs now and then holds the loop up for 1 % of the time, and its hangs on threads are
# seen.
_QUICK_SECONDS = 0.005
_SLOW_SECONDS = 1.0
_SLOW_FACTOR = 100


# A read that takes longer is taken for hung: its thread does not count any more, and another one takes its place. With
# so many of them no further read is begun.
HUNG_READ_SECONDS = 5.0
HUNG_READS_MAX = 8


class HungWorkersError(OSError):
    """Too many jobs of the pool hang; this one was not begun."""


class Workers(Protocol):
    """Runs blocking jobs off the loop."""

    def run_now(self, job: Callable[[], None]) -> bool:
        """Run a job that should take microseconds, less than it takes to hand it to a thread and back, on the loop.

        Returns False where it has not been run: jobs like it have been slow lately. Raises what it raises.
        """
        ...

    async def run(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run `job()` in `pool` and return what it returns, or raise what it raises.

        Cancellation: the caller stops waiting; a job that has started still runs to its end, so whoever
        may be cancelled must not assume that the job's effect did not happen.

        Raises:
            HungWorkersError: Too many reads hang; nothing was begun.
        """
        ...

    def close(self) -> None:
        """Wait for the running jobs and stop; no `run` afterwards."""
        ...


class ThreadWorkers:
    """`Workers` on threads."""

    def __init__(self) -> None:
        self._pools = {
            pool: ThreadPoolExecutor(
                threads + (HUNG_READS_MAX if pool is Pool.READ else 0), thread_name_prefix=pool.value
            )
            for pool, threads in POOL_THREADS.items()
        }
        self._quick_again_at = 0.0
        self._free_reads = POOL_THREADS[Pool.READ]
        # Those that wait for one of these, in the order in which they came.
        self._waiting_reads: deque[asyncio.Future[None]] = deque()
        self._hung_reads = 0

    def run_now(self, job: Callable[[], None]) -> bool:
        """Run `job()` here, while such jobs keep what they promise."""
        began = time.monotonic()
        if began < self._quick_again_at:
            return False
        try:
            job()
        finally:
            # One slow disk must not hold up the loop twice: for a while everything goes to threads again.
            ended = time.monotonic()
            if ended - began > _QUICK_SECONDS:
                self._quick_again_at = ended + max(_SLOW_SECONDS, _SLOW_FACTOR * (ended - began))
        return True

    async def run(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run `job()` on a thread of `pool`."""
        if pool is Pool.READ:
            return await self._read(job)
        return await asyncio.get_running_loop().run_in_executor(self._pools[pool], job)

    async def _read(self, job: Callable[[], T]) -> T:
        """Run a job of `Pool.READ`: as many at once as the pool has threads, and beside them those that hang."""
        await self._acquire_read()
        loop = asyncio.get_running_loop()
        is_hung = False

        def give_up() -> None:
            nonlocal is_hung
            if self._hung_reads < HUNG_READS_MAX:
                is_hung = True
                self._hung_reads += 1
                if self._hung_reads == HUNG_READS_MAX:
                    self._refuse_waiting_reads()
                self._release_read()

        def end(_: asyncio.Future[T]) -> None:
            deadline.cancel()
            if is_hung:
                self._hung_reads -= 1
            else:
                self._release_read()

        deadline = loop.call_later(HUNG_READ_SECONDS, give_up)
        future = loop.run_in_executor(self._pools[Pool.READ], job)
        future.add_done_callback(end)
        try:
            return await asyncio.shield(future)
        finally:
            # The future has the job's error, and the error's traceback has this frame. As a cycle they would keep all
            # that the job had in memory until a collection: 64 MiB for each batch that unpacks to too much.
            del future

    async def _acquire_read(self) -> None:
        """Wait for one of the threads that reads share, in line.

        Raises:
            HungWorkersError: Too many reads hang, now or before one was free: whoever waited longer might do so for as
                long as the disk hangs.
        """
        if self._hung_reads >= HUNG_READS_MAX:
            raise self._too_many_hang()
        if self._free_reads:
            self._free_reads -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_reads.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting_reads.remove(turn)
            elif turn.exception() is None:
                self._release_read()
            raise

    def _release_read(self) -> None:
        # One that was cancelled in this step of the loop is still in line, and leaves it by itself.
        for turn in self._waiting_reads:
            if not turn.done():
                self._waiting_reads.remove(turn)
                turn.set_result(None)
                return
        self._free_reads += 1

    def _refuse_waiting_reads(self) -> None:
        refused = [turn for turn in self._waiting_reads if not turn.done()]
        for turn in refused:
            self._waiting_reads.remove(turn)
            turn.set_exception(self._too_many_hang())

    def _too_many_hang(self) -> HungWorkersError:
        return HungWorkersError(errno.EBUSY, f"{self._hung_reads} reads of the disk hang")

    def close(self) -> None:
        """Wait for the running jobs and stop the threads."""
        for executor in self._pools.values():
            executor.shutdown(wait=True, cancel_futures=True)
