"""Memory for requests: a bound for the whole listener, taken before a large request's body is read."""

from typing import NamedTuple

from runtime.byte_budget import ByteBudget

# A request above this share of the whole is huge.
_HUGE_SHARE = 16


class RequestLease(NamedTuple):
    """What one request has taken; its holder releases it once."""

    budget: ByteBudget
    units: int

    @property
    def is_waited_for(self) -> bool:
        """Whether others wait for such memory."""
        return self.budget.is_waited_for

    def release(self) -> None:
        """Give it back."""
        self.budget.release(self.units)


class RequestMemory:
    """Two budgets of half the memory each: huge requests wait for each other and keep nobody else waiting.

    A request larger than its budget takes all of it (see ByteBudget): so many bytes more than the limit may be out.
    """

    def __init__(self, limit: int) -> None:
        assert limit >= _HUGE_SHARE
        self._ordinary = ByteBudget(limit - limit // 2)
        self._huge = ByteBudget(limit // 2)
        self._ordinary_bytes_max = limit // _HUGE_SHARE

    @property
    def taken(self) -> int:
        """Bytes out now."""
        return self._ordinary.taken + self._huge.taken

    def try_acquire(self, size: int) -> RequestLease | None:
        """Take `size` bytes if they are free and nobody waits for them."""
        budget = self._budget(size)
        units = budget.try_acquire(size)
        return RequestLease(budget, units) if units else None

    async def acquire(self, size: int) -> RequestLease:
        """Take `size` bytes, waiting in line. Cancellation: nothing is taken."""
        budget = self._budget(size)
        return RequestLease(budget, await budget.acquire(size))

    def _budget(self, size: int) -> ByteBudget:
        return self._ordinary if size <= self._ordinary_bytes_max else self._huge
