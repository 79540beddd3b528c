"""Latencies in bounded memory: counts of buckets, each 1/16 wider than the one before (as in HdrHistogram)."""

import math
from collections import Counter

_STEP = math.log2(1 + 1 / 16)


class LatencyHistogram:
    """Latencies in nanoseconds; percentiles are exact to 1/16."""

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0
        self._buckets: Counter[int] = Counter()

    def add(self, nanoseconds: int) -> None:
        """Count one."""
        self.count += 1
        self.largest = max(self.largest, nanoseconds)
        self._buckets[int(math.log2(max(1, nanoseconds)) / _STEP)] += 1

    def update(self, other: "LatencyHistogram") -> None:
        """Add what another one has counted."""
        self.count += other.count
        self.largest = max(self.largest, other.largest)
        self._buckets.update(other.buckets())

    def buckets(self) -> Counter[int]:
        """Return how many latencies each bucket has."""
        return self._buckets.copy()

    def doublings(self) -> list[tuple[float, float, int]]:
        """Return (from, below, how many) in milliseconds, each row twice as wide as the one before, without holes."""
        rows: Counter[int] = Counter()
        for bucket, count in self._buckets.items():
            rows[math.floor(bucket * _STEP)] += count
        if not rows:
            return []
        return [(2.0**row / 1e6, 2.0 ** (row + 1) / 1e6, rows[row]) for row in range(min(rows), max(rows) + 1)]

    def percentile(self, percent: float) -> float:
        """Return in milliseconds what so many percent of the latencies do not exceed; NaN of none."""
        if not self.count:
            return math.nan
        wanted = math.ceil(self.count * percent / 100)
        passed = 0
        for bucket in sorted(self._buckets):
            passed += self._buckets[bucket]
            if passed >= wanted:
                return float(min(self.largest, 2.0 ** ((bucket + 1) * _STEP))) / 1e6
        return self.largest / 1e6

    def summary(self) -> dict[str, float]:
        """Return p50, p99, p99.9 and the largest, in milliseconds."""
        if not self.count:
            return {}
        named = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
        found = {name: round(self.percentile(percent), 3) for name, percent in named.items()}
        return found | {"max": round(self.largest / 1e6, 3)}
