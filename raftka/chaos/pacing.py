"""Who may send when: a rate that is kept over the whole run, also after a time in which nobody could."""

import threading
import time

# How much of what was missed is made good at once.
_BACKLOG_SECONDS = 20.0


class Pacer:
    """Gives out turns at a rate; to be used from any thread."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._given = 0

    def take(self) -> float:
        """Take a turn and return 0, or return in how many seconds there is one."""
        with self._lock:
            elapsed = time.monotonic() - self._began
            due = elapsed * self._per_second
            self._given = max(self._given, int(due - _BACKLOG_SECONDS * self._per_second))
            if self._given < due:
                self._given += 1
                return 0.0
            return (self._given - due) / self._per_second
