"""Bytes of append requests that followers of this node hold until their logs have them, over all groups.

A leader sends up to a window of requests to each follower. If a follower's disk hangs, or its `op_lock` is held for
long, they wait here. One group holds at most an eighth of the budget. Another eighth is reserved for internal groups:
raft0 and `__consumer_offsets`. A request beyond the bound is dropped and answered BUSY, and recovery sends it later.
"""

import asyncio
import logging

from runtime.byte_budget import ReservedBudget

_logger = logging.getLogger("raft")

_LOG_EVERY_SECONDS = 60.0


class AppendBufferBudget:
    """One per node.

    Attributes:
        bytes: The budget itself.
        refused: Requests that were answered BUSY because of it.
    """

    def __init__(self, limit: int) -> None:
        self.bytes = ReservedBudget(limit)
        self.refused = 0
        self._logged_at = float("-inf")
        self._refused_then = 0

    def has_room(self, size: int, held: int, *, is_internal: bool) -> bool:
        """Whether a group that holds `held` bytes may hold `size` more; no single request is too large for ever."""
        return self._fits_share(size, held) and self.bytes.has_room(size, urgent=is_internal)

    def _fits_share(self, size: int, held: int) -> bool:
        return held + min(size, self.bytes.share) <= self.bytes.share

    def try_acquire(self, size: int, held: int, *, is_internal: bool) -> int | None:
        """Take the bytes of a request and return what to give back to `release`; None: it is to be answered BUSY."""
        if not size:
            return 0
        units = self.bytes.try_acquire(size, urgent=is_internal) if self._fits_share(size, held) else 0
        if not units:
            self._count_refusal()
            return None
        return units

    def release(self, units: int) -> None:
        """Give `units` bytes back."""
        self.bytes.release(units)

    def _count_refusal(self) -> None:
        self.refused += 1
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= _LOG_EVERY_SECONDS:
            _logger.warning(
                "append requests for the followers here hold %d of %d bytes (raft.append.buffer.node.max.bytes):"
                " %d were answered BUSY since this was said last",
                *(self.bytes.taken, self.bytes.limit, self.refused - self._refused_then),
            )
            self._logged_at, self._refused_then = now, self.refused
