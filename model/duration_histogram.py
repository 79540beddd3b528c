"""Durations of one interval in buckets that can be added up: over intervals, replicas and brokers.

Four buckets per power of two: what a percentile is read as lies at most a quarter above what it is. Counting one costs
a look at the number's length and at a dict; a histogram of any life holds fewer than 140 buckets.
"""

import msgspec

_MICROSECONDS = 1_000_000
# Upper bounds have so many significant bits: two behind the first one make four buckets per power of two.
_SIGNIFICANT_BITS = 3
# About 71 minutes; whatever takes longer is counted as this.
_MAX_US = 2**32


class Durations(msgspec.Struct, frozen=True):
    """What a histogram held; microseconds.

    Attributes:
        n: How many there were, at least one.
        sum_us: All of them together.
        max_us: The longest.
        buckets: (upper bound, how many lie at or below it and above the bound before), ascending; none is empty.
    """

    n: int
    sum_us: int
    max_us: int
    buckets: list[tuple[int, int]]


def bucket_bound(duration_us: int) -> int:
    """Return the upper bound of the bucket that a duration of at least 1 microsecond falls into."""
    below = min(duration_us, _MAX_US) - 1
    shift = max(below.bit_length() - _SIGNIFICANT_BITS, 0)
    return ((below >> shift) + 1) << shift


class DurationHistogram:
    """Counts until it is taken, then begins anew. Used by one thread."""

    __slots__ = ("_counts", "_max_us", "_sum_us")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._sum_us = 0
        self._max_us = 0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        duration_us = min(max(round(seconds * _MICROSECONDS), 1), _MAX_US)
        bound = bucket_bound(duration_us)
        self._counts[bound] = self._counts.get(bound, 0) + 1
        self._sum_us += duration_us
        self._max_us = max(self._max_us, duration_us)

    def take(self) -> Durations | None:
        """Return what was counted since the last call, None if there was nothing."""
        if not self._counts:
            return None
        counts, self._counts = self._counts, {}
        taken = Durations(sum(counts.values()), self._sum_us, self._max_us, sorted(counts.items()))
        self._sum_us = self._max_us = 0
        return taken

    def put_back(self, taken: Durations | None) -> None:
        """Count again what `take` returned: it has reached nobody."""
        if taken is None:
            return
        for bound, count in taken.buckets:
            self._counts[bound] = self._counts.get(bound, 0) + count
        self._sum_us += taken.sum_us
        self._max_us = max(self._max_us, taken.max_us)
