"""Where blocking calls run: small separate thread pools, so that one kind never starves another.

CPU-bound Python must not run here: the GIL would make the event loop wait. What belongs here releases
the GIL in the kernel or in C: write, read, fsync, RocksDB's WAL sync.
"""

import asyncio
import time
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


POOL_THREADS = {Pool.APPEND: 4, Pool.FSYNC: 4, Pool.READ: 4, Pool.KVSTORE: 1}

# A quick job that takes longer than this was none, and for so long no other is taken for one.
_QUICK_SECONDS = 0.005
_SLOW_SECONDS = 1.0


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
        """
        ...

    def close(self) -> None:
        """Wait for the running jobs and stop; no `run` afterwards."""
        ...


class ThreadWorkers:
    """`Workers` on threads."""

    def __init__(self) -> None:
        self._pools = {
            pool: ThreadPoolExecutor(threads, thread_name_prefix=pool.value) for pool, threads in POOL_THREADS.items()
        }
        self._quick_again_at = 0.0

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
                self._quick_again_at = ended + _SLOW_SECONDS
        return True

    async def run(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run `job()` on a thread of `pool`."""
        return await asyncio.get_running_loop().run_in_executor(self._pools[pool], job)

    def close(self) -> None:
        """Wait for the running jobs and stop the threads."""
        for executor in self._pools.values():
            executor.shutdown(wait=True, cancel_futures=True)
