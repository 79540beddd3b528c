"""Whether a follower that is recovered comes nearer, by what it is sent and what is written meanwhile (RFC 0004)."""

# Over such a period.
PERIOD_SECONDS = 10.0


class RecoveryTrend:
    """The trend of one follower, over all its recoveries in one leadership.

    Attributes:
        is_losing: In the last period as many bytes were written as the follower was sent, or more.
        has_lost: That was so once.
    """

    def __init__(self) -> None:
        self.is_losing = self.has_lost = False
        self._since = float("-inf")
        self._appended = self._sent = 0

    def look(self, now: float, appended: int) -> None:
        """Judge a period once it is over; `appended`: bytes that this leader has written so far."""
        if now - self._since < PERIOD_SECONDS:
            return
        # After a longer time without a look there was no recovery, or one that nobody has seen: it begins anew.
        if now - self._since < 2 * PERIOD_SECONDS:
            self.is_losing = appended - self._appended >= self._sent
            self.has_lost = self.has_lost or self.is_losing
        else:
            self.is_losing = False
        self._since, self._appended, self._sent = now, appended, 0

    def count(self, size: int) -> None:
        """The follower is sent `size` bytes."""
        self._sent += size
