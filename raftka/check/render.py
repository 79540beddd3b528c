"""A verdict as text for a person; JSON is msgspec's business."""

import json
from collections.abc import Iterator

from raftka.check.explain import EXPLANATIONS
from raftka.check.verdict import Verdict


def render(verdict: Verdict, *, explained: bool) -> Iterator[str]:
    """Yield lines; with `explained`, each kind of anomaly is told in words."""
    yield "valid" if verdict.is_valid else "NOT VALID"
    yield f"{verdict.operations} operations judged ({verdict.model})"
    for name, figure in sorted(verdict.measures.items()):
        yield f"  {name}: {figure:g}"
    for name, cases in sorted(verdict.allowed.items()):
        yield f"  {name}: {cases}, which the level allows"
    for finding in verdict.findings:
        yield ""
        yield f"{finding.name}: {finding.cases} case{'' if finding.cases == 1 else 's'}"
        if explained:
            yield f"  {EXPLANATIONS[finding.name]}"
        for anomaly in finding.examples:
            yield f"  {anomaly.subject}: {anomaly.text}"
            for operation in anomaly.operations:
                yield f"    {json.dumps(operation, ensure_ascii=False)}"
        if finding.cases > len(finding.examples):
            yield f"  ... and {finding.cases - len(finding.examples)} more"
