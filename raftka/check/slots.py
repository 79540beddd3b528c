"""Offsets of all partitions in one table: a look-up where keys would have to be sorted and searched for.

A log has few holes, so a table that is as long as the logs are is hardly larger than what was read of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from raftka.check.log.columns import NEVER, UNKNOWN, Flags, Numbers

# Where holes are larger than this many times what there is, a table would not pay.
SIZE_MAX = 4


@dataclass(frozen=True, slots=True)
class Slots:
    """One slot for each offset of each partition, by partition and offset.

    Attributes:
        ends: For each partition the slot behind its last one.
        shift: For each partition what to add to an offset to get its slot.
    """

    ends: Numbers
    shift: Numbers

    @classmethod
    def over(cls, partitions: int, tps: Sequence[Numbers], offsets: Sequence[Numbers]) -> Self | None:
        """Return the slots that columns of partitions and columns of offsets need; None: too many for what there is."""
        lows, highs = np.full(partitions, NEVER), np.full(partitions, UNKNOWN)
        for tp, offset in zip(tps, offsets, strict=True):
            np.minimum.at(lows, tp, offset)
            np.maximum.at(highs, tp, offset)
        # Of a partition without any it is 0 - 1, and so none.
        lows = np.where(highs == UNKNOWN, 0, lows)
        # In Python's numbers: together they may be too large for 64 bits.
        if sum((highs - lows).tolist()) > SIZE_MAX * sum(len(each) for each in tps):
            return None
        sizes = highs - lows + 1
        ends = np.cumsum(sizes)
        return cls(ends, ends - sizes - lows)

    def of(self, tp: Numbers, offsets: Numbers) -> Numbers:
        """Return the slots of these offsets."""
        return offsets + self.shift[tp]

    def is_taken(self, pieces: Sequence[Numbers]) -> Flags:
        """Return for each slot whether it is among these."""
        flags = np.zeros(int(self.ends[-1]) if len(self.ends) else 0, np.bool_)
        for each in pieces:
            flags[each] = True
        return flags

    def places(self, slots: Numbers) -> tuple[Numbers, Numbers]:
        """Return the partitions and the offsets of ascending slots."""
        tp = np.repeat(np.arange(len(self.ends)), np.diff(np.searchsorted(slots, self.ends), prepend=0))
        return tp, slots - self.shift[tp]


def is_repeated(partitions: int, tp: Numbers, offsets: Numbers) -> Flags:
    """Return for each row whether another one may have its partition and offset; where it does not, none has."""
    slots = Slots.over(partitions, [tp], [offsets])
    if slots is None:
        return np.ones(len(tp), np.bool_)
    at = slots.of(tp, offsets)
    flags: Flags = np.bincount(at)[at] > 1 if len(at) else np.zeros(0, np.bool_)
    return flags
