"""Ratios of medians and whether they are what was aimed at, as rows of a table."""

import operator
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.compare.match import Match

_HOLDS = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True, slots=True)
class Target:
    """What is aimed at: a bound for the ratio to the peer's value, or for Raftka's own value."""

    sign: Literal[">=", "<="]
    bound: float
    of: Literal["ratio", "value"] = "ratio"

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}{'x' if self.of == 'ratio' else ''}"

    def is_met(self, number: float) -> bool:
        """Return whether a number is on the right side of the bound."""
        return bool(_HOLDS[self.sign](number, self.bound))


def row(
    what: str,
    unit: str,
    ours: Sequence[float],
    theirs: Sequence[float] = (),
    *targets: Target,
    peer: str = "kafka",
) -> dict[str, Any]:
    """Return one row of the table.

    Args:
        what: Names the row.
        unit: Of the values.
        ours: Raftka's runs; empty: it could not run.
        theirs: The peer's; the n-th is in one pair with the n-th of ours. Empty: nobody was beside it.
        targets: All of them have to hold.
        peer: What it is compared with.
    """
    found: dict[str, Any] = {"what": what, "unit": unit, "targets": [str(each) for each in targets]}
    if not ours:
        return found | {"raftka": None, "met": False if targets else None}
    numbers = {"value": statistics.median(ours)}
    found["raftka"] = round(numbers["value"], 4)
    if theirs:
        # Of pairs, not of all runs: what slows the machine down for a minute slows down both runs of a pair.
        ratios = [own / other for own, other in zip(ours, theirs, strict=False) if other]
        found |= {"peer": round(statistics.median(theirs), 4), "peer_name": peer}
        # A peer that has nothing of it, no election for example, leaves nothing to divide by.
        if ratios:
            numbers["ratio"] = statistics.median(ratios)
            found["ratio"] = round(numbers["ratio"], 3)
            found["ratio_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
    found["met"] = all(each.of in numbers and each.is_met(numbers[each.of]) for each in targets) if targets else None
    return found


def match_row(
    match: Match, what: str, unit: str, metric: str, *targets: Target, ours: str = "raftka", theirs: str = "kafka"
) -> dict[str, Any]:
    """Return the row of one metric of a match; a contender that was refused says why."""
    own, other = ([run[metric] for run in match.runs[label]] for label in (ours, theirs))
    found = row(what, unit, own, other, *targets, peer=theirs)
    if ours in match.refused:
        found["refused"] = match.refused[ours]
    return found
