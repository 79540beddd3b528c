"""Ends a process whose event loop has stood still for a minute: it serves nobody, and would live on for ever.

A write that hangs on the loop (small appends run there) stops heartbeats, clients and the admin port at once, and also
signals. The other brokers have elected other leaders long before; whoever supervises the process starts it again.
"""

import faulthandler
import os
import threading
from collections.abc import Callable

# More than any pause of a broker that still works, and as long as a stop may take.
STANDS_STILL_SECONDS = 60.0
_LOOK_SECONDS = 1.0


class LoopWatchdog:
    """A thread of its own beside the loop.

    It counts its own looks and not the clock: a process that was stopped (SIGSTOP, a frozen container) has not hung.
    """

    def __init__(
        self,
        progress: Callable[[], int],
        tell: Callable[[str], None],
        *,
        seconds: float = STANDS_STILL_SECONDS,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        """`progress` returns a number that changes as long as the loop runs, at least once per look.

        `tell` takes the line with which the broker ends.
        """
        self._progress = progress
        self._tell = tell
        self._look_seconds = look_seconds
        self._looks_max = max(1, round(seconds / look_seconds))
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loop-watchdog", daemon=True)

    def start(self) -> None:
        """Begin to look; the loop runs already."""
        self._thread.start()

    def stop(self) -> None:
        """End. Idempotent."""
        self._is_stopped.set()

    def _run(self) -> None:
        seen, looks = self._progress(), 0
        while not self._is_stopped.wait(self._look_seconds):
            now = self._progress()
            looks = looks + 1 if now == seen else 0
            seen = now
            if looks >= self._looks_max:
                self._end(looks * self._look_seconds)

    def _end(self, seconds: float) -> None:
        self._tell(f"the event loop has stood still for {seconds:g} s: the broker ends")
        faulthandler.dump_traceback(all_threads=True)
        # Neither the loop nor a thread that hangs in the disk would let the interpreter end.
        os._exit(1)
