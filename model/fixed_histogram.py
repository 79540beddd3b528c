"""Durations since the start of the process in fixed buckets, as Prometheus counts them, and the longest of late.

The bounds are the same for everything that is measured, so that histograms of brokers and of parts add up (RFC 0017).
"""

from bisect import bisect_left

# Seconds. What takes longer than the last one is counted in the bucket without a bound.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# The longest of the last minute is kept in slots of ten seconds, the oldest of which is cleared for the newest.
WINDOW_SECONDS = 60
_SLOT_SECONDS = 10
_SLOTS = WINDOW_SECONDS // _SLOT_SECONDS


class FixedHistogram:
    """Counts only upwards. Used by one thread.

    Attributes:
        counts: How many durations fell into each bucket: above the bound before, at or below its own.
            One more than there are BOUNDS.
        sum: Seconds of all of them together.
    """

    __slots__ = ("_longest", "_newest", "_newest_ends", "_slot", "counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0
        # The longest of the newest ten seconds in which something ended, and of those before, by their number.
        self._newest = 0.0
        self._newest_ends = float("-inf")
        self._slot = 0
        self._longest: dict[int, float] = {}

    def observe(self, seconds: float, now: float) -> None:
        """Count one duration that ended at `now`, in seconds of any clock that does not go back."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds
        if now >= self._newest_ends:
            self._begin_slot(now)
        if seconds > self._newest:
            self._newest = seconds

    def _begin_slot(self, now: float) -> None:
        slot = int(now) // _SLOT_SECONDS
        if self._newest_ends > float("-inf"):
            self._longest[self._slot] = self._newest
        self._longest = {each: longest for each, longest in self._longest.items() if each > slot - _SLOTS}
        self._slot, self._newest, self._newest_ends = slot, 0.0, (slot + 1) * _SLOT_SECONDS

    @property
    def count(self) -> int:
        """How many durations there were."""
        return sum(self.counts)

    def longest(self, now: float) -> float:
        """Return the longest duration that ended in the last 50 to 60 seconds before `now`; 0.0 if there was none."""
        oldest = int(now) // _SLOT_SECONDS - _SLOTS + 1
        found = [longest for slot, longest in self._longest.items() if slot >= oldest]
        return max([*found, self._newest] if self._slot >= oldest else found, default=0.0)
