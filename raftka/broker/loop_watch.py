"""How late the event loop is, and how long the garbage collector stops it: what every latency includes."""

import asyncio
import gc
import time
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_INTERVAL_SECONDS = 0.05


class LoopWatch(Collector):
    """Looks every 50 ms whether a timer comes when it is due, and times every collection.

    Attributes:
        lag_max: Seconds that a timer came too late, the largest since the start.
        lag_sum: The same, all together; with `looks` it gives the mean.
        looks: How often was looked.
        pause_max: Seconds of the longest collection since the start.
        pause_sum: Seconds of all collections.
    """

    def __init__(self) -> None:
        self.lag_max = self.lag_sum = self.pause_max = self.pause_sum = 0.0
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

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        yield GaugeMetricFamily(
            "raftka_loop_lag_max_seconds", "Largest delay of a timer of the event loop.", self.lag_max
        )
        yield CounterMetricFamily(
            "raftka_loop_lag_seconds", f"Delays of a timer that is set every {_INTERVAL_SECONDS:g} s.", self.lag_sum
        )
        yield CounterMetricFamily("raftka_loop_looks", "How often that timer came.", self.looks)
        yield GaugeMetricFamily("raftka_gc_pause_max_seconds", "Longest garbage collection.", self.pause_max)
        yield CounterMetricFamily("raftka_gc_pause_seconds", "Time in garbage collections.", self.pause_sum)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _INTERVAL_SECONDS
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        # The loop may call a timer a little early, by the resolution of its clock.
        lag = max(0.0, loop.time() - due)
        self.lag_max = max(self.lag_max, lag)
        self.lag_sum += lag
        self.looks += 1
        self._look_later(loop)

    def _on_collection(self, phase: str, _: dict[str, Any]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._collection_began = now
        else:
            pause = now - self._collection_began
            self.pause_max = max(self.pause_max, pause)
            self.pause_sum += pause
