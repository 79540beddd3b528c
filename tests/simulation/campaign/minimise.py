"""Makes a failing run small: faults and operations are left out as long as it fails in the same way.

Delta debugging over numbered events. It works because what is left out draws its chances all the same: the rest of the
run stays what it was until the missing event matters.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests.simulation.campaign.plan import OperationId, Plan
from tests.simulation.campaign.run import RunResult, run

Event = TypeVar("Event", bound=Hashable)

_TRIALS_MAX = 400


@dataclass(slots=True)
class Minimised:
    """The smallest plan that was found, what it ends with, and how many runs it took."""

    plan: Plan
    result: RunResult
    runs: int
    events_before: int

    @property
    def events(self) -> int:
        """Faults and operations that are left."""
        return len(self.result.faults) + len(self.result.operations)


class PassedError(Exception):
    """There is nothing to make small: the run passes."""


def kind_of(result: RunResult) -> str:
    """Return what two failures have in common if they are the same: the first line of their cause, without numbers."""
    return re.sub(r"[0-9a-f]{16,}|\d+", "#", (result.cause or "").split("\n")[0])


def minimise(
    plan: Plan, trials_max: int = _TRIALS_MAX, tell: Callable[[Minimised], None] = lambda found: None
) -> Minimised:
    """Return the plan with as many faults, and then operations, left out as possible; `tell` hears of each step.

    Raises:
        PassedError: The plan's run does not fail.
    """
    first = run(plan)
    if first.error is None:
        raise PassedError(f"seed {plan.seed} passes")
    search = _Search(kind_of(first), plan, first, trials_max, tell)
    search.reduce([fault.number for fault in first.faults], lambda numbers: {"faults": numbers})
    # Whole clients first: most of them have nothing to do with it.
    processes = sorted({process for process, _ in search.result.operations})
    search.reduce(processes, lambda some: {"operations": _of(search.result.operations, some)})
    search.reduce(search.result.operations, lambda some: {"operations": some})
    return search.found


def _of(operations: Iterable[OperationId], processes: Sequence[int]) -> list[OperationId]:
    return [operation for operation in operations if operation[0] in processes]


class _Search:
    """The smallest plan so far, and its result."""

    def __init__(
        self, kind: str, plan: Plan, result: RunResult, trials_max: int, tell: Callable[[Minimised], None]
    ) -> None:
        self.plan = plan
        self.result = result
        self.runs = 1
        self._events_before = len(result.faults) + len(result.operations)
        self._kind = kind
        self._tell = tell
        self._trials_max = trials_max

    @property
    def found(self) -> Minimised:
        """What there is so far."""
        return Minimised(self.plan, self.result, self.runs, self._events_before)

    def reduce(self, events: Sequence[Event], leave_out: Callable[[Sequence[Event]], dict[str, Iterable]]) -> None:
        """Leave out runs of events, the longest first, whenever the failure stays."""
        kept = list(events)
        size = len(kept)
        while size:
            position = 0
            while position < len(kept) and self.runs < self._trials_max:
                some = kept[position : position + size]
                if self._still_fails(self.plan.without(**leave_out(some))):
                    del kept[position : position + size]
                else:
                    position += size
            size //= 2

    def _still_fails(self, plan: Plan) -> bool:
        self.runs += 1
        result = run(plan)
        if result.error is None or kind_of(result) != self._kind:
            return False
        self.plan, self.result = plan, result
        self._tell(self.found)
        return True
