"""Bounds bytes per second. It knows no clock: callers pass the loop time.

In any period of t seconds it grants at most `rate * (t + BURST_SECONDS)` bytes and one request more.
"""

from typing import NamedTuple

# A rate that bounds nothing: Kafka's default of a throttled rate.
UNLIMITED = 2**63 - 1
# What was not used within this time is lost.
BURST_SECONDS = 0.5
# Nobody is told to wait longer: who asks then asks again, so that a change of the rate reaches everybody soon.
WAIT_SECONDS_MAX = 1.0


class Reservation(NamedTuple):
    """The answer to `reserve`: after `seconds` the bytes may be sent, or, if they are not granted, asked for again."""

    is_granted: bool
    seconds: float


class TokenBucket:
    """One bound; `rate` is in bytes per second. 0 grants nothing."""

    def __init__(self, rate: int) -> None:
        assert rate >= 0
        self.rate = rate
        # Bytes that may be granted now; below 0 they are owed.
        self._balance = 0.0
        self._as_of = float("-inf")

    @property
    def is_limited(self) -> bool:
        """Whether there is a bound."""
        return self.rate < UNLIMITED

    def reserve(self, size: int, now: float) -> Reservation:
        """Ask for `size` bytes. What is granted counts at once, and is paid for before the next request is.

        So each request waits for those before it and not for itself, and one that is larger than a burst goes, too.
        """
        if not self.is_limited:
            return Reservation(is_granted=True, seconds=0.0)
        if not self.rate:
            return Reservation(is_granted=False, seconds=WAIT_SECONDS_MAX)
        self._fill(now)
        seconds = max(0.0, -self._balance / self.rate)
        if seconds > WAIT_SECONDS_MAX:
            return Reservation(is_granted=False, seconds=WAIT_SECONDS_MAX)
        self._balance -= size
        return Reservation(is_granted=True, seconds=seconds)

    def count(self, size: int, now: float) -> None:
        """Count bytes that were sent without being asked for: whoever asks next waits for them."""
        if self.is_limited:
            self._fill(now)
            self._balance -= size

    def change(self, rate: int, now: float) -> None:
        """Let another rate be in force. What is owed takes at most a second of it."""
        assert rate >= 0
        if rate == self.rate:
            return
        self._fill(now)
        was_limited, self.rate = self.is_limited, rate
        self._balance = min(0.0, max(self._balance, -rate * WAIT_SECONDS_MAX)) if was_limited else 0.0

    def _fill(self, now: float) -> None:
        """Add what has come in since the last call. It begins empty."""
        if self.is_limited and self._as_of >= 0.0:
            self._balance = min(self._balance + self.rate * (now - self._as_of), self.rate * BURST_SECONDS)
        self._as_of = now
