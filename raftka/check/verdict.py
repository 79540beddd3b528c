"""What a checker says: anomalies with the operations that prove them, what was allowed, and what was measured.

A history may be judged in pieces, each with a report of its own: `merged` makes one of them, which is the report of the
whole history to the letter. So each case has its place in the order in which the whole history's are reported.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from raftka.check.log.columns import Numbers

# Of each kind so many are told; all are counted.
EXAMPLES = 5


class Anomaly(msgspec.Struct, frozen=True):
    """One case.

    Attributes:
        subject: The partition or key it happened in.
        text: What is wrong with it, in one sentence.
        operations: The lines that prove it, each with its number as `line`; of polls only the records that matter.
    """

    subject: str
    text: str
    operations: list[dict[str, Any]]


class Finding(msgspec.Struct, frozen=True):
    """All cases of one kind; the first EXAMPLES of them in full."""

    name: str
    cases: int
    examples: list[Anomaly]


class Verdict(msgspec.Struct):
    """What is said of one history.

    Attributes:
        model: log, register or cas.
        operations: How many were judged.
        findings: What must not be; empty: the history is valid.
        allowed: What is no more than the level allows, counted by name.
        measures: Figures that are neither good nor bad.
        unjudged: What nothing is claimed of, beside findings; without any, such a history has no verdict.
    """

    model: str
    operations: int
    findings: list[Finding]
    allowed: dict[str, int]
    measures: dict[str, float]
    unjudged: list[str] = msgspec.field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


class Tally(msgspec.Struct):
    """What one step of a check has found.

    Attributes:
        name: Of the anomaly.
        cases: How many.
        allowed: How many more the level allows.
        first: The first EXAMPLES of the cases, each with what orders it among all cases of this step.
    """

    name: str
    cases: int
    allowed: int
    first: list[tuple[tuple[int, ...], Anomaly]]


class Report:
    """Collects a verdict."""

    def __init__(self) -> None:
        # By number of the check, and of the step in it: findings are told in this order.
        self.tallies: dict[tuple[int, int], Tally] = {}
        self.measures: dict[str, float] = {}
        self.unjudged: list[str] = []
        self._check = self._step = 0

    def begin(self, check: int) -> None:
        """Note that what is added from here on is found by a check: its number orders its findings among others'."""
        self._check, self._step = check, 0

    def add(
        self,
        name: str,
        rows: Numbers,
        describe: Callable[[int], Anomaly],
        *,
        order: Callable[[int], tuple[int, ...]],
        allowed: int = 0,
    ) -> None:
        """Note the cases at `rows`, each told by `describe`, and how many more were allowed; a name's cases add up.

        A check adds the same steps in the same order, whatever it finds; it may leave out the last ones.

        Args:
            name: Of the anomaly.
            rows: One per case, in the order in which they are told.
            describe: Tells the case at a row.
            order: What the rows are ordered by, without reference to rows: it must hold for pieces of a history.
            allowed: How many more there are.
        """
        first = [(tuple(map(int, order(int(row)))), describe(int(row))) for row in rows[:EXAMPLES]]
        self.tallies[self._check, self._step] = Tally(name, len(rows), allowed, first)
        self._step += 1

    def verdict(self, model: str, operations: int) -> Verdict:
        """Return what was collected."""
        findings: dict[str, Finding] = {}
        allowed: dict[str, int] = {}
        for _, tally in sorted(self.tallies.items()):
            if tally.cases:
                former = findings.get(tally.name, Finding(tally.name, 0, []))
                examples = [*former.examples, *(anomaly for _, anomaly in tally.first)]
                findings[tally.name] = Finding(tally.name, former.cases + tally.cases, examples[:EXAMPLES])
            if tally.allowed:
                allowed[tally.name] = allowed.get(tally.name, 0) + tally.allowed
        return Verdict(model, operations, list(findings.values()), allowed, self.measures, self.unjudged)


def merged(reports: Iterable[Report]) -> Report:
    """Return the report on a history, of reports on its pieces; figures are the caller's business."""
    whole = Report()
    for report in reports:
        for slot, tally in report.tallies.items():
            former = whole.tallies.setdefault(slot, Tally(tally.name, 0, 0, []))
            former.cases += tally.cases
            former.allowed += tally.allowed
            former.first.extend(tally.first)
        whole.unjudged.extend(report.unjudged)
    for tally in whole.tallies.values():
        tally.first = sorted(tally.first, key=lambda each: each[0])[:EXAMPLES]
    return whole
