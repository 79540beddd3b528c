"""Where blocking calls run: small separate thread pools, so that one kind never starves another.

CPU-bound Python must not run here: the GIL would make the event loop wait. What belongs here releases
the GIL in the kernel or in C: write, read, fsync, RocksDB's WAL sync.
"""

import asyncio
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


class Workers(Protocol):
    """Runs blocking jobs off the loop."""

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

    async def run(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run `job()` on a thread of `pool`."""
        return await asyncio.get_running_loop().run_in_executor(self._pools[pool], job)

    def close(self) -> None:
        """Wait for the running jobs and stop the threads."""
        for executor in self._pools.values():
            executor.shutdown(wait=True, cancel_futures=True)
