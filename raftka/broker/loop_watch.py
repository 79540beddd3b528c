"""How late the event loop is, and how long the garbage collector stops it: what every latency includes."""

import asyncio
import gc
import time
from typing import Any

from model.fixed_histogram import FixedHistogram
from raftka.broker.metric_rows import Row, Rows

_INTERVAL_SECONDS = 0.05


class LoopWatch:
    """Looks every 50 ms whether a timer comes when it is due, and times every collection.

    Attributes:
        lags: How late the timer came.
        looks: How often it came.
        pauses: How long collections took. One runs in any thread, but never beside another.
    """

    def __init__(self) -> None:
        self.lags, self.pauses = FixedHistogram(), FixedHistogram()
        self.looks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._collection_began = 0.0

    def start(self) -> None:
        """Begin; on the loop that is watched."""
        gc.callbacks.append(self._on_collection)
        self._look_later(asyncio.get_running_loop())

    def stop(self) -> None:
        """End. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.callbacks.remove(self._on_collection)

    def rows(self, now: float) -> Rows:
        """Yield the rows of the loop and of the collector."""
        yield Row("raftka_loop_lag_seconds", self.lags)
        yield Row("raftka_loop_lag_max_seconds", self.lags.longest(now))
        yield Row("raftka_gc_pause_seconds", self.pauses)
        yield Row("raftka_gc_pause_max_seconds", self.pauses.longest(time.monotonic()))

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _INTERVAL_SECONDS
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        # The loop may call a timer a little early, by the resolution of its clock.
        now = loop.time()
        self.lags.observe(max(0.0, now - due), now)
        self.looks += 1
        self._look_later(loop)

    def _on_collection(self, phase: str, _: dict[str, Any]) -> None:
        now = time.monotonic()
        if phase == "start":
            self._collection_began = now
        else:
            self.pauses.observe(now - self._collection_began, now)
