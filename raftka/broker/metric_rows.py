"""What collectors yield: values under names of the catalogue, one at a time, so that a scrape runs in short steps.

The rows of one family follow one another. A source reads each value when its row is asked for, and between two rows
anything may change: it iterates over copies of what it counts.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, TypeAlias

from model.fixed_histogram import FixedHistogram

# Samples of a slice, and things looked at between two of them (W1).
SAMPLES_PER_SLICE = 100


class Row(NamedTuple):
    """One series of a family, with the values of its labels in their order; a histogram is a row."""

    name: str
    value: float | FixedHistogram
    labels: tuple[str, ...] = ()


# None: SAMPLES_PER_SLICE things were looked at for a later row, and others may run.
Rows: TypeAlias = Iterator[Row | None]


class RowSource(Protocol):
    """A part of the broker that is measured."""

    def rows(self, now: float) -> Rows:
        """Yield its rows; `now` is the loop's time in seconds."""
        ...
