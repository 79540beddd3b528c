"""How long parts of a bundle may take: each has its own bound, and all of them together have one.

A call into a library or a hung disk cannot be interrupted. So the work runs in a daemon thread, which is left alone
when its time is over.
"""

import http.client
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from raftka.admin_client import AdminError
from raftka.debug.errors import MissingPartError
from raftka.dev.errors import DevError
from raftka.error_text import reason_of
from raftka.kafka.errors import KafkaClientError

T = TypeVar("T")

_EXPECTED = (
    *(MissingPartError, OSError, ValueError, AdminError, DevError, KafkaClientError),
    *(http.client.HTTPException, subprocess.SubprocessError),
)


class _Work(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.results: list[T] = []
        self.reason: str | None = None

    def run(self) -> None:
        try:
            self.results.append(self._work())
        except _EXPECTED as error:
            self.reason = reason_of(error)

    def outcome(self, seconds: float, *, is_running: bool) -> T | MissingPartError:
        if self.results:
            return self.results[0]
        if self.reason is not None:
            return MissingPartError(self.reason)
        if is_running:
            return MissingPartError(f"no answer within {seconds:.0f} s")
        return MissingPartError("a mistake in raftka: stderr has the stack")


class TimeBudget:
    """The time of one bundle, from now on.

    Args:
        seconds: How long all parts may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())

    def run(self, seconds: float, work: Callable[[], T]) -> T:
        """Return what `work` returns; it has `seconds`, or less if less is left.

        Raises:
            MissingPartError: It failed, or it has not ended in time.
        """
        (outcome,) = self.run_all(seconds, [work])
        if isinstance(outcome, MissingPartError):
            raise outcome
        return outcome

    def run_all(self, seconds: float, works: Sequence[Callable[[], T]]) -> list[T | MissingPartError]:
        """Return what each of `works` returns, or why there is nothing; they run at once and share their time."""
        seconds = min(seconds, self.left)
        if seconds <= 0:
            return [MissingPartError(f"the {self._seconds:.0f} s of this bundle were over") for _ in works]
        jobs = [_Work(work) for work in works]
        threads = [threading.Thread(target=job.run, daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        return [job.outcome(seconds, is_running=thread.is_alive()) for job, thread in zip(jobs, threads, strict=True)]
