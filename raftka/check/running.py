"""Partition by partition, and running minima and maxima: what "there is no i before j with ..." is decided by."""

from collections.abc import Iterator

import numpy as np

from raftka.check.log.columns import Flags, Numbers


def by_partition(tps: Numbers, rows: Numbers) -> Iterator[Numbers]:
    """Yield the rows of each partition; they are ordered by partition, which `tps` has of every row."""
    bounds = np.flatnonzero(np.diff(tps[rows])) + 1
    for piece in np.split(rows, bounds):
        if len(piece):
            yield piece


def together(pieces: list[Numbers]) -> Numbers:
    """Return all pieces as one."""
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


def suffix_min(values: Numbers) -> tuple[Numbers, Numbers]:
    """Return for each place the least value from there to the end, and where that is."""
    largest, at = prefix_max(-values[::-1])
    return -largest[::-1], len(values) - 1 - at[::-1]


def prefix_max(values: Numbers) -> tuple[Numbers, Numbers]:
    """Return for each place the largest value from the beginning to there, and where it was first."""
    largest = np.maximum.accumulate(values) if len(values) else values
    is_new: Flags = np.ones(len(values), np.bool_)
    is_new[1:] = largest[1:] > largest[:-1]
    return largest, np.maximum.accumulate(np.where(is_new, np.arange(len(values)), 0)) if len(values) else largest


def take(values: Numbers, at: Numbers, default: int) -> Numbers:
    """Return the values at some places, and `default` where the place is negative."""
    return np.where(at >= 0, values[np.maximum(at, 0)], default) if len(values) else np.full(len(at), default)
