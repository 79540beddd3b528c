"""Appends that hang while a file exists: what no device of a test machine can be made to do.

For `raftka chaos` alone, which names the file to the brokers of its own runs (`raftka.broker --hang-appends-while`);
nothing else starts a broker with it.
"""

import os
import time
from collections.abc import Callable
from typing import TypeVar

from runtime.workers import Pool, ThreadWorkers

T = TypeVar("T")

_POLL_SECONDS = 0.02


class HangingWorkers(ThreadWorkers):
    """`ThreadWorkers` of which no append begins while `path` exists."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def run_now(self, job: Callable[[], None]) -> bool:
        """Run `job()` here, unless appends hang: then a thread has to wait, and not the loop."""
        return not os.path.exists(self._path) and super().run_now(job)

    async def run(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run `job()` on a thread of `pool`, an append once `path` is gone."""
        return await super().run(pool, (lambda: self._wait_and(job)) if pool is Pool.APPEND else job)

    def _wait_and(self, job: Callable[[], T]) -> T:
        while os.path.exists(self._path):
            time.sleep(_POLL_SECONDS)
        return job()
