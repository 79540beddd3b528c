"""Fair semaphores counted in bytes: how memory limits push back on producers."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection


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

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody stands in line."""
        return bool(self._waiters)

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


class BudgetWaiter:
    """A place in the line of a `ReservedBudget`."""

    __slots__ = ("granted", "units")

    def __init__(self, units: int, granted: Callable[[], None]) -> None:
        self.units = units
        self.granted = granted


class ReservedBudget:
    """A budget that many share: a part is kept for the urgent, and no taker asks for more than its share at once.

        |<----------------- ordinary takers: 7/8 ----------------->|<- urgent only: 1/8 ->|

    The urgent may use all of it and are served first, so whatever the ordinary takers do, they find the reserve.
    Waiters are called back instead of awaited: who waits here holds no task. A waiter that is called back has its
    units, and gives them back if it has no use for them any more.
    """

    PARTS = 8

    def __init__(self, limit: int) -> None:
        assert limit >= self.PARTS
        self.limit = limit
        self.share = limit // self.PARTS
        # What ordinary takers may have together.
        self.ordinary = limit - self.share
        self.taken = 0
        self._urgent: deque[BudgetWaiter] = deque()
        self._ordinary: deque[BudgetWaiter] = deque()

    def try_acquire(self, size: int, *, urgent: bool = False) -> int:
        """Take `min(size, share)` bytes now and return how many; 0 if they are not free or others wait for them."""
        units = min(size, self.share)
        assert units > 0
        if not self.has_room(units, urgent=urgent):
            return 0
        self.taken += units
        return units

    def has_room(self, size: int, *, urgent: bool = False) -> bool:
        """Whether `try_acquire` would take `size` bytes now."""
        waits = self._urgent or (self._ordinary and not urgent)
        return not waits and self._has_room(min(size, self.share), urgent=urgent)

    def wait(self, size: int, granted: Callable[[], None], *, urgent: bool = False) -> BudgetWaiter:
        """Stand in line for `min(size, share)` bytes; `granted` is called, not before this returns, with them taken."""
        waiter = BudgetWaiter(min(size, self.share), granted)
        (self._urgent if urgent else self._ordinary).append(waiter)
        return waiter

    def forget(self, waiters: Collection[BudgetWaiter]) -> None:
        """Leave the line, as far as the waiters are still in it."""
        for line in (self._urgent, self._ordinary):
            for waiter in waiters:
                if waiter in line:
                    line.remove(waiter)
        self._serve()

    def release(self, units: int) -> None:
        """Give `units` bytes back."""
        assert 0 <= units <= self.taken
        self.taken -= units
        if self._urgent or self._ordinary:
            self._serve()

    def _has_room(self, units: int, *, urgent: bool) -> bool:
        return self.taken + units <= (self.limit if urgent else self.ordinary)

    def _serve(self) -> None:
        for line, urgent in ((self._urgent, True), (self._ordinary, False)):
            while line and self._has_room(line[0].units, urgent=urgent):
                waiter = line.popleft()
                self.taken += waiter.units
                waiter.granted()
