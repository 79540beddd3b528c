"""Values as small numbers: what a history says with strings, the checks compute with integers."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from raftka.check.log.columns import UNKNOWN, Numbers

# Below this, looking a poll up as a whole costs more than looking up its records.
_LONG = 16
# A log is remembered as far as its holes are smaller: answers to sends come in any order, and markers have offsets too.
_HOLE_MAX = 10_000


@dataclass(slots=True)
class ValueNumbers:
    """Numbers values in the order in which they first appear.

    A dictionary look-up is a walk through memory that no cache holds. So of each partition it is remembered which
    values lie where, and a poll that says the same again is only compared. Values that are sent are taken to be new
    until a poll has to look something up: `settle` says which were not.
    """

    # Those that were taken to be new, by their numbers.
    _sent: list[str] = field(default_factory=list)
    _numbers: defaultdict[str, int] | None = None
    _logs: dict[int, "_Remembered"] = field(default_factory=dict)

    def settle(self) -> tuple[list[str], Numbers | None]:
        """Return (every value once, the place of each number among them; None: numbers are the places)."""
        if self._numbers is None:
            hashes = np.sort(np.fromiter(map(hash, self._sent), np.int64, len(self._sent)))
            if not (np.diff(hashes) == 0).any():
                return self._sent, None
        numbers = self._looked_up()
        values = list(numbers)
        if values[: len(self._sent)] == self._sent:
            return values, None
        place = {value: at for at, value in enumerate(values)}
        sent = np.fromiter(map(place.__getitem__, self._sent), np.int64, len(self._sent))
        first = int(sent.max()) + 1
        return values, np.concatenate([sent, np.arange(first, len(values))])

    def _looked_up(self) -> defaultdict[str, int]:
        if self._numbers is None:
            self._numbers = defaultdict(count(len(self._sent)).__next__)
            for number, value in enumerate(self._sent):
                self._numbers.setdefault(value, number)
        return self._numbers

    def _of(self, values: list[str]) -> Numbers:
        return np.fromiter(map(self._looked_up().__getitem__, values), np.int64, len(values))

    def _of_sent(self, values: list[str]) -> Numbers:
        if self._numbers is not None:
            return self._of(values)
        first = len(self._sent)
        self._sent.extend(values)
        return np.arange(first, len(self._sent))

    def of_keys(self, keys: list[str | None]) -> Numbers:
        """Return numbers of the keys of records, among those of values; UNKNOWN where there is no key."""
        if keys.count(None) == len(keys):
            return np.full(len(keys), UNKNOWN)
        numbers = self._looked_up()
        return np.fromiter((UNKNOWN if key is None else numbers[key] for key in keys), np.int64, len(keys))

    def of_sends(self, tps: Numbers, offsets: Numbers, values: list[str]) -> Numbers:
        """Return numbers of values that were sent; those with an offset are what polls will say."""
        numbers = self._of_sent(values)
        order = np.lexsort((offsets, tps))
        order = order[offsets[order] != UNKNOWN]
        tps, offsets = tps[order], offsets[order]
        ends = np.flatnonzero((np.diff(tps) != 0) | (np.diff(offsets) != 1)) + 1
        rows = order.tolist()
        for begin, end in zip([0, *ends.tolist()], [*ends.tolist(), len(rows)], strict=True):
            if begin < end:
                run = [values[row] for row in rows[begin:end]]
                self._remember(int(tps[begin]), int(offsets[begin]), run, numbers[order[begin:end]])
        return numbers

    def of_poll(self, tp: int, offsets: Numbers, values: list[str]) -> Numbers:
        """Return numbers of values that lie at these offsets of a partition, one poll's records."""
        if len(values) < _LONG or (np.diff(offsets) != 1).any():
            return self._of(values)
        first = int(offsets[0])
        log = self._logs.get(tp)
        numbers = log.same(first, values) if log else None
        if numbers is None:
            numbers = self._of(values)
            self._remember(tp, first, values, numbers)
        return numbers

    def _remember(self, tp: int, first: int, values: list[str], numbers: Numbers) -> None:
        log = self._logs.get(tp)
        if log is None:
            log = self._logs[tp] = _Remembered(first)
        log.remember(first, values, numbers)


@dataclass(slots=True)
class _Remembered:
    """What lies where in one partition, from `base` on; None where nobody has said yet."""

    base: int
    values: list[str | None] = field(default_factory=list)
    numbers: Numbers = field(default_factory=lambda: np.zeros(1024, np.int64))

    def same(self, first: int, values: list[str]) -> Numbers | None:
        """Return the numbers if these values are known to lie there; None if they are not, or something else is."""
        begin = first - self.base
        end = begin + len(values)
        if begin < 0 or self.values[begin:end] != values:
            return None
        return self.numbers[begin:end]

    def remember(self, first: int, values: list[str], numbers: Numbers) -> None:
        """Take in what lies in between, or goes on behind a small hole; the latest word counts."""
        begin = first - self.base
        hole = begin - len(self.values)
        if begin < 0 or hole > _HOLE_MAX:
            return
        if hole > 0:
            self.values.extend([None] * hole)
        end = begin + len(values)
        self.values[begin:end] = values
        if end > len(self.numbers):
            self.numbers = np.concatenate([self.numbers, np.zeros(end, np.int64)])
        self.numbers[begin:end] = numbers
