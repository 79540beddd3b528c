"""A verdict as text for a person; JSON is msgspec's business."""

import json
import textwrap
from collections.abc import Iterator

from raftka.check.explain import EXPLANATIONS, MEASURES
from raftka.check.places import shown
from raftka.check.printable import printable
from raftka.check.verdict import Finding, Verdict

_WIDTH = 100


def render(verdict: Verdict, *, explained: bool, if_valid: str = "valid") -> Iterator[str]:
    """Yield lines to be printed; with `explained`, each kind of anomaly and each figure is told in words.

    The first line is `if_valid` where nothing was found.
    """
    yield from map(printable, _lines(verdict, explained=explained, if_valid=if_valid))


def _lines(verdict: Verdict, *, explained: bool, if_valid: str) -> Iterator[str]:
    yield if_valid if verdict.is_valid else "NOT VALID: " + ", ".join(map(_counted, verdict.findings))
    yield f"{verdict.operations:,} operations judged ({verdict.model})"
    width = max(map(len, verdict.measures), default=0)
    for name, figure in verdict.measures.items():
        number = f"{figure:,}" if isinstance(figure, int) else f"{figure:,.3f}"
        yield f"  {name:<{width}}  {number}{'   ' + MEASURES[name] if explained else ''}"
    for name, cases in sorted(verdict.allowed.items()):
        yield f"  {name}: {cases:,}, which the level allows"
        if explained:
            yield from _wrapped(EXPLANATIONS[name])
    for text in verdict.unjudged:
        yield f"  not judged: {text}"
    for finding in verdict.findings:
        yield ""
        yield from _told(finding, explained=explained)


def _told(finding: Finding, *, explained: bool) -> Iterator[str]:
    yield f"{finding.name}: {finding.cases:,} case{'' if finding.cases == 1 else 's'}"
    if explained:
        yield from _wrapped(EXPLANATIONS[finding.name])
    for anomaly in finding.examples:
        yield f"  {anomaly.subject}: {anomaly.text}"
        for operation in anomaly.operations:
            # As the line in the file, behind its place, which editors and terminals open.
            fields = {name: each for name, each in operation.items() if name not in ("file", "line")}
            yield f"    {shown(operation)}: {json.dumps(fields, ensure_ascii=False)}"
    if finding.cases > len(finding.examples):
        yield f"  ... and {finding.cases - len(finding.examples):,} more"


def _counted(finding: Finding) -> str:
    return f"{finding.cases:,} {finding.name}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
