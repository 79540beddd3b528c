"""The leader's time for record batches: its wall clock, but never below the batch before (LogAppendTime)."""

from model.ids import Term
from storage.log import Log


class AppendClock:
    """One partition's. Batches pass here in the order in which they are offered to the engine."""

    __slots__ = ("_latest", "_log", "_term")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._term = Term(0)
        self._latest = -1

    def stamp(self, term: Term, now_ms: int) -> int:
        """Return the timestamp of the next batch, in milliseconds.

        Args:
            term: The leader's; in a new one the batch before may be another leader's, whose clock ran ahead.
            now_ms: The wall clock.
        """
        self.observe(term, now_ms if now_ms > self._floor(term) else self._latest)
        return self._latest

    def observe(self, term: Term, timestamp_ms: int) -> None:
        """The next batch keeps the timestamp of its producer, the largest of which is `timestamp_ms`."""
        self._term = term
        self._latest = timestamp_ms

    def _floor(self, term: Term) -> int:
        if term != self._term:
            self._term, self._latest = term, self._log.reader.newest_timestamp
        return self._latest
