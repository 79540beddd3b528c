"""What a checker says: anomalies with the operations that prove them, what was allowed, and what was measured."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from raftka.check.log_columns import Numbers

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


class Report:
    """Collects a verdict."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.allowed: Counter[str] = Counter()
        self.measures: dict[str, float] = {}
        self.unjudged: list[str] = []

    def add(self, name: str, rows: Numbers, describe: Callable[[int], Anomaly], *, allowed: int = 0) -> None:
        """Note the cases at `rows`, each told by `describe`, and how many more were allowed; a name's cases add up."""
        if len(rows):
            examples = [describe(int(row)) for row in rows[:EXAMPLES]]
            former = next((each for each in self.findings if each.name == name), None)
            if former is None:
                self.findings.append(Finding(name, len(rows), examples))
            else:
                together = Finding(name, former.cases + len(rows), [*former.examples, *examples][:EXAMPLES])
                self.findings[self.findings.index(former)] = together
        if allowed:
            self.allowed[name] += allowed

    def verdict(self, model: str, operations: int) -> Verdict:
        """Return what was collected."""
        return Verdict(model, operations, self.findings, dict(self.allowed), self.measures, self.unjudged)
