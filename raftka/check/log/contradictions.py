"""What no log history may say, for then nothing follows from it: a value sent twice, a process in two places.

Both are found in pieces as well: a value within its partition, a process by who was last in one piece and is first in
the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from raftka.check.errors import HistoryError
from raftka.check.log.columns import NEVER, UNKNOWN, LogHistory, Numbers
from raftka.check.operations import Txn
from raftka.check.places import Places
from raftka.check.sorting import stable_order


def check_contradictions(history: LogHistory) -> None:
    """Refuse a history that contradicts itself.

    Raises:
        HistoryError: It does; both lines are named.
    """
    if again := sent_again(history):
        raise HistoryError(again.text)
    if overlap := ProcessEnds.of(history).overlap:
        raise HistoryError(overlap.text(history.places))
    if conflict := ended_twice(history.transactions.ends, history.places):
        raise HistoryError(conflict)


@dataclass(frozen=True, slots=True)
class SentAgain:
    """A value that was sent twice, and the line that did so."""

    line: int
    text: str


def sent_again(history: LogHistory) -> SentAgain | None:
    """Return the first line that sends a value once more; None: there is none."""
    sends = history.sends
    if not len(sends) or int(np.bincount(sends.val).max()) == 1:
        return None
    order = np.lexsort((sends.val, sends.tp))
    again = np.flatnonzero((np.diff(sends.val[order]) == 0) & (np.diff(sends.tp[order]) == 0))
    if not len(again):
        return None
    at = again[np.argmin(order[again + 1])]
    first, second = order[at], order[at + 1]
    text = (
        f"{_both(history.places, sends.line[first], sends.line[second])}: value {history.values[sends.val[first]]!r} is"
        f" sent twice to {history.partitions[sends.tp[first]]}; only values that are unique in their partition can"
        " be told apart"
    )
    return SentAgain(int(sends.line[second]), text)


def ended_twice(ends: Sequence[tuple[int, Txn]], places: Places) -> str | None:
    """Return what is wrong with the first transaction that was certainly committed and certainly aborted; None: no."""
    known: dict[str, tuple[int, str]] = {}
    for line, each in ends:
        if each.type != "ok" or each.do == "begin" or each.txn is None or each.do is None:
            continue
        before, do = known.setdefault(each.txn, (line, each.do))
        if do != each.do:
            return (
                f"{_both(places, before, line)}: transaction {each.txn!r} is committed and aborted; each transaction"
                " has a name of its own, and one end"
            )
    return None


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two lines of one process, of which the second begins before the first has ended."""

    proc: int
    first: int
    second: int

    def text(self, places: Places) -> str:
        """Return it in words."""
        return (
            f"{_both(places, self.first, self.second)}: process {self.proc} begins the second before the first has"
            " ended; what is in flight side by side is of several processes, and each process's lines are in the order"
            " of time"
        )


@dataclass(frozen=True, slots=True)
class ProcessEnds:
    """Whether each process did one thing at a time, and all that what goes on behind has to know.

    Each process's lines are in the order of time, and none begins before the one before it has ended. Lines of one poll
    that returned records of several partitions begin and end together.

    Attributes:
        firsts: The first of each process, by process: columns of process, line, beginning, end, whether it is a poll.
        lasts: The same, of each process the last.
        overlap: Of the first process that has one, the first one.
    """

    firsts: Numbers
    lasts: Numbers
    overlap: Overlap | None

    @classmethod
    def of(cls, history: LogHistory) -> Self:
        """Return what a history says."""
        sorts = (history.sends, history.polls, history.latests)
        columns = [
            np.stack([each.proc, each.line, each.inv, each.ret, np.full(len(each), each is history.polls)])
            for each in sorts
        ]
        if history.transactions.ends:
            columns.append(_steps_of(history.transactions.ends))
        steps = np.concatenate(columns, axis=1)
        # By line, which no two share: written where they belong, for to sort them takes longer.
        base = int(steps[1].min(initial=NEVER))
        rows = np.full(int(steps[1].max(initial=base)) - base + 1, UNKNOWN)
        rows[steps[1] - base] = np.arange(steps.shape[1])
        rows = rows[rows != UNKNOWN]
        steps = steps[:, rows[stable_order(steps[0][rows])]]
        new = np.diff(steps[0], prepend=UNKNOWN) != 0
        return cls(
            steps[:, new],
            steps[:, np.roll(new, -1)] if len(new) else steps,
            _overlap(steps[:, :-1], steps[:, 1:]),
        )

    def followed_by(self, other: "ProcessEnds") -> "ProcessEnds":
        """Return what two pieces say together, of which the other one goes on where this one ends."""
        _, mine, its = np.intersect1d(self.lasts[0], other.firsts[0], assume_unique=True, return_indices=True)
        overlaps = [self.overlap, other.overlap, _overlap(self.lasts[:, mine], other.firsts[:, its])]
        known = [each for each in overlaps if each is not None]
        return ProcessEnds(
            _united(self.firsts, other.firsts),
            _united(other.lasts, self.lasts),
            min(known, key=lambda each: (each.proc, each.second), default=None),
        )


def _steps_of(ends: Sequence[tuple[int, Txn]]) -> Numbers:
    rows = [(each.proc, line, each.inv, NEVER if each.ret is None else each.ret, 0) for line, each in ends]
    return np.array(rows, np.int64).T


def _overlap(one: Numbers, two: Numbers) -> Overlap | None:
    """Return the first of the steps `one` that the step `two` beside it does not wait for, if both are of a process."""
    together = (one[4] == 1) & (two[4] == 1) & (one[2] == two[2]) & (one[3] == two[3])
    ends = np.where(one[3] == NEVER, one[2], one[3])
    overlaps = np.flatnonzero((one[0] == two[0]) & (two[2] < ends) & ~together)
    if not len(overlaps):
        return None
    at = overlaps[0]
    return Overlap(int(one[0, at]), int(one[1, at]), int(two[1, at]))


def _united(steps: Numbers, others: Numbers) -> Numbers:
    """Return one step of each process, by process: of those that have two, the one of `steps`."""
    both = np.concatenate([steps, others[:, ~np.isin(others[0], steps[0])]], axis=1)
    return both[:, np.argsort(both[0])]


def _both(places: Places, first: int, second: int) -> str:
    return f"{places.name(first)} and {places.name(second)}"
