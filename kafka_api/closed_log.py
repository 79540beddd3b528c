"""Says why connections were closed, without a line for each of ten thousand."""

import logging

_logger = logging.getLogger("kafka")

_LINES_PER_PERIOD = 20
_PERIOD_SECONDS = 60.0


class ClosedLog:
    """The first few of a minute are said one by one, the others as a number and an example.

    Times are loop.time().
    """

    def __init__(self) -> None:
        self._began_at: float | None = None
        self._said = 0
        self._unsaid = 0
        self._example = ""

    def closed(self, now: float, peer: str, reason: str) -> None:
        """Log that a connection is closed, or count it."""
        self.look(now)
        if self._began_at is None:
            self._began_at = now
        if self._said < _LINES_PER_PERIOD:
            self._said += 1
            _logger.info("%s: connection closed: %s", peer, reason)
        else:
            self._unsaid += 1
            self._example = f"{peer}: {reason}"

    def look(self, now: float) -> None:
        """Say what was only counted, once its minute is over; called every now and then."""
        if self._began_at is None or now - self._began_at < _PERIOD_SECONDS:
            return
        if self._unsaid:
            _logger.info("%d more connections closed in a minute, the last one %s", self._unsaid, self._example)
        self._began_at = None
        self._said = self._unsaid = 0
        self._example = ""
