"""One loop timer for the deadlines of all groups of a node.

A follower's election deadline moves with every heartbeat; moving it must cost nothing. So the heap is lazy: an
armed deadline that moved later stays where it is and is looked at again when its old time comes.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count


class Deadline:
    """One deadline of one group; fires its callback once per arming."""

    __slots__ = ("_callback", "_queue", "_queued_at", "when")

    def __init__(self, queue: "DeadlineQueue", callback: Callable[[], None]) -> None:
        self._queue = queue
        self._callback = callback
        self._queued_at: float | None = None
        self.when: float | None = None

    def arm(self, when: float) -> None:
        """Fire at loop time `when`; replaces what was armed before."""
        self.when = when
        if self._queued_at is None or when < self._queued_at:
            self._queued_at = when
            self._queue.push(when, self)

    def disarm(self) -> None:
        """Do not fire."""
        self.when = None

    def on_due(self, queued_at: float, now: float) -> None:
        """Called by the queue: fire, or queue again if the deadline has moved."""
        if queued_at != self._queued_at:
            return  # An earlier arming took this one's place in the heap.
        self._queued_at = None
        when = self.when
        if when is None:
            return
        if when > now:
            self.arm(when)
            return
        self.when = None
        self._callback()


class DeadlineQueue:
    """The heap and its single timer."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Deadline]] = []
        self._sequence = count()
        self._timer: asyncio.TimerHandle | None = None
        # Not `TimerHandle.when()`: uvloop's handles of what is already due have none.
        self._timer_at = 0.0
        self._is_closed = False

    def deadline(self, callback: Callable[[], None]) -> Deadline:
        """Return a new, disarmed deadline."""
        return Deadline(self, callback)

    def push(self, when: float, deadline: Deadline) -> None:
        """Queue `deadline`; called by `Deadline.arm`."""
        heapq.heappush(self._heap, (when, next(self._sequence), deadline))
        self._arm_timer()

    def close(self) -> None:
        """Fire nothing any more."""
        self._is_closed = True
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm_timer(self) -> None:
        if self._is_closed or not self._heap:
            return
        when = self._heap[0][0]
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = asyncio.get_running_loop().call_at(when, self._run)

    def _run(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            queued_at, _, deadline = heapq.heappop(self._heap)
            deadline.on_due(queued_at, now)
        self._arm_timer()
