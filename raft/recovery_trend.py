"""Whether a follower that is recovered comes nearer, by what it is sent and what is written meanwhile (RFC 0004)."""

# Over such a period.
PERIOD_SECONDS = 10.0


class RecoveryTrend:
    """The trend of one follower, over all its recoveries in one leadership.

    Attributes:
        is_losing: In the last period something was written, and as many bytes as the follower was sent, or more.
    """

    def __init__(self) -> None:
        self.is_losing = False
        self._since = float("-inf")
        self._is_taught = False
        self._appended = self._sent = 0

    def look(self, now: float, appended: int, *, is_taught: bool) -> None:
        """Judge a period once it is over; another one begins then, and where another bound holds from now on.

        Args:
            now: Loop time.
            appended: Bytes that this leader has written so far.
            is_taught: Whether the bound is the leader's own for learners, and none that somebody has set.
        """
        if is_taught == self._is_taught and now - self._since < PERIOD_SECONDS:
            return
        # After a longer time without a look there was no recovery, or one that nobody has seen.
        is_whole = is_taught == self._is_taught and now - self._since < 2 * PERIOD_SECONDS
        self.is_losing = is_whole and 0 < appended - self._appended >= self._sent
        self._since, self._is_taught, self._appended, self._sent = now, is_taught, appended, 0

    def count(self, size: int) -> None:
        """The follower is sent `size` bytes."""
        self._sent += size
