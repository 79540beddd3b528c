"""Which process is meant: a pid alone is soon somebody else's.

A process is known by its pid and the moment it was started (ticks since boot, with the boot's id). Signals go through
a pidfd that is opened before the comparison, so that nothing can change in between.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process of this machine, since it was started once."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """Return the identity of a process that is there now; None: there is none, or only a zombie."""
        started = _start_of(pid)
        return None if started is None else cls(pid, started)

    @property
    def is_alive(self) -> bool:
        """Whether exactly this process runs (a zombie does not)."""
        return _start_of(self.pid) == self.started

    def send_signal(self, number: signal.Signals) -> bool:
        """Signal this process; False: it is gone, and nobody was signalled."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_alive:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def wait_gone(self, seconds: float) -> bool:
        """Wait until the process is gone, at most so long; whether it is."""
        deadline = time.monotonic() + seconds
        while self.is_alive:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def _start_of(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command stands in parentheses and may hold anything; after it: state (field 3), ..., start time (field 22).
    fields = stat[stat.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    return f"{_boot_id()}/{fields[19]}"


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
