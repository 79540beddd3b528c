"""Memory for fetch responses: from before their records are read until the kernel has taken them."""

import asyncio

from runtime.byte_budget import ByteBudget

_SHARE = 16
# Less is not worth a response; where not even this is free, fetches wait.
_GRANT_BYTES_MIN = 64 * 1024


class FetchMemory:
    """The bound of a whole listener.

    A connection gets at most 1/16 of what is *free*: readers that take nothing leave less and less to each other, and
    still something to everybody else, until they are disconnected.
    """

    def __init__(self, limit: int, wait_timeout: float) -> None:
        self._budget = ByteBudget(limit)
        self._limit = limit
        self._wait_timeout = wait_timeout

    @property
    def taken(self) -> int:
        """Bytes out now."""
        return self._budget.taken

    def grant(self, asked: int) -> int:
        """Return how much of `asked` one response may have now."""
        return max(min(asked, max((self._limit - self._budget.taken) // _SHARE, _GRANT_BYTES_MIN)), 1)

    def try_acquire(self, size: int) -> int:
        """Take now; return the units, 0 if they are not free."""
        return self._budget.try_acquire(size)

    async def acquire(self, size: int) -> int:
        """Take, waiting in line; return the units, 0 if it took too long."""
        try:
            async with asyncio.timeout(self._wait_timeout):
                return await self._budget.acquire(size)
        except TimeoutError:
            return 0

    def release(self, units: int) -> None:
        """Return units."""
        self._budget.release(units)


class FetchLease:
    """What one connection's fetch response holds: one response at a time, the next waits until it was taken."""

    def __init__(self, memory: FetchMemory) -> None:
        self._memory = memory
        self._units = 0
        self._granted = 0
        self._is_free = asyncio.Event()
        self._is_free.set()

    async def begin(self) -> None:
        """Wait until the connection's previous response was taken; `end` follows in any case."""
        await self._is_free.wait()
        self._is_free.clear()

    def end(self) -> None:
        """The response was taken, or never will be."""
        self.drop()
        assert not self._units
        self._is_free.set()

    async def reserve(self, asked: int) -> int:
        """Take some of what is asked, before reading; return how many bytes may be read, 0 if none in time."""
        # What a lease forgets to give back is missing from every connection's responses until the broker ends.
        assert not self._units
        granted = self._memory.grant(asked)
        self._units = self._memory.try_acquire(granted) or await self._memory.acquire(granted)
        self._granted = granted if self._units else 0
        return self._granted

    async def cover(self, size: int) -> bool:
        """Make sure that `size` bytes, read already, are counted; False: they have to be thrown away.

        After False the lease holds `size` bytes, or nothing if they were not free in time: read again, or give up.
        """
        if size <= self._granted:
            return True
        more = self._memory.try_acquire(size - self._granted)
        if more:
            self._units += more
            self._granted = size
            return True
        # Never wait while holding: all could.
        self.drop()
        self._units = await self._memory.acquire(size)
        self._granted = size if self._units else 0
        return False

    @property
    def granted(self) -> int:
        """Bytes that may be read."""
        return self._granted

    def shrink(self, size: int) -> None:
        """Give back what was not needed."""
        if size < self._units:
            self._memory.release(self._units - size)
            self._units = size
        self._granted = min(self._granted, size)

    def drop(self) -> None:
        """Give back all: what was read is thrown away."""
        self.shrink(0)
