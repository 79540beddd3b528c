"""Who has objected to a run: the name of an invariant, of an anomaly, or what had to happen after the last fault.

The first cause counts. What is raised from it, or because of it, says nothing about who has found the bug.
"""

import re

from tests.simulation.campaign.run import RunResult

CONVERGENCE = "Convergence"
# A loop that stands still: `tests.simulation.world.endless_steps`.
ENDLESS_STEP = "EndlessStep"

_INVARIANT = re.compile(r"^(?:[\w.]+\.)?InvariantBrokenError: (\w+): ", re.MULTILINE)
_ANOMALY = re.compile(r"^AssertionError: clients saw ([\w-]+), ", re.MULTILINE)
_NOT_CONVERGED = re.compile(
    r"^AssertionError: (?:the replicas have not converged|nothing was acknowledged within"
    r"|nobody leads|what is in the log could not be read)",
    re.MULTILINE,
)
_ENDLESS_STEP = re.compile(r"^(?:[\w.]+\.)?EndlessStepError: ", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last)"
_RAISED_FROM_IT = "The above exception was the direct cause"


def objector(result: RunResult) -> str | None:
    """Return who has ended the run; None: nobody, or a crash, which is no objection."""
    cause = _cause(result)
    for pattern in (_INVARIANT, _ANOMALY):
        found = pattern.search(cause)
        if found is not None:
            return found[1]
    if _ENDLESS_STEP.search(cause):
        return ENDLESS_STEP
    return CONVERGENCE if _NOT_CONVERGED.search(cause) else None


def last_line(result: RunResult) -> str:
    """Return what a run ended with, in one line."""
    lines = [line for line in _cause(result).splitlines() if line and not line.startswith(" ")]
    return (lines[1] if len(lines) > 1 else result.error or "passed")[:150]


def _cause(result: RunResult) -> str:
    """Return the traceback of what ended the run first; it is printed before what was raised from it."""
    if result.error is None:
        return ""
    text = "\n".join(result.lines)
    end = text.find(_RAISED_FROM_IT)
    text = text if end < 0 else text[:end]
    begin = text.rfind(_TRACEBACK)
    return text[begin:] if begin >= 0 else ""
