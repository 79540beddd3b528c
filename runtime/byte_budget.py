"""A fair semaphore counted in bytes: how memory limits push back on producers."""

import asyncio
from collections import deque


class ByteBudget:
    """At most `limit` bytes are out at once; waiters are served in the order they came.

    A request larger than the limit takes what there is when everything is free, instead of waiting for ever
    (Redpanda #1503: an oversize batch locked its partition up).
    """

    def __init__(self, limit: int) -> None:
        assert limit > 0
        self._limit = limit
        self._taken = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def taken(self) -> int:
        """Bytes out now, in [0, limit]."""
        return self._taken

    def try_acquire(self, size: int) -> int:
        """Take `min(size, limit)` bytes now and return how many; 0 if they are not free or others wait."""
        units = min(size, self._limit)
        assert units > 0
        if self._waiters or self._taken + units > self._limit:
            return 0
        self._taken += units
        return units

    async def acquire(self, size: int) -> int:
        """Take `min(size, limit)` bytes, waiting in line; return what to give back to `release`.

        Cancellation: nothing is taken.
        """
        units = self.try_acquire(size)
        if units:
            return units
        units = min(size, self._limit)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((units, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.release(units)
            elif (units, waiter) in self._waiters:
                self._waiters.remove((units, waiter))
                self._wake()
            raise
        return units

    def release(self, units: int) -> None:
        """Give `units` bytes back."""
        assert 0 <= units <= self._taken
        self._taken -= units
        self._wake()

    def _wake(self) -> None:
        while self._waiters:
            units, waiter = self._waiters[0]
            if waiter.cancelled():
                # Its task was cancelled in this step of the loop and has not run yet.
                self._waiters.popleft()
                continue
            if self._taken + units > self._limit:
                return
            self._waiters.popleft()
            self._taken += units
            waiter.set_result(None)
