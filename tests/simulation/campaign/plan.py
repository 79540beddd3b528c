"""What one run is asked to do: a seed, and what of it is left out. Everything else follows from the seed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

RUN_SECONDS = 60.0
# The last 15 are without faults.
SECONDS_MIN = 20.0

# A client's operation: the client's process, and which of its operations.
OperationId = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """One run.

    What is left out draws its chances all the same, so that all the rest stays what it was: the minimiser lives on it.

    Attributes:
        seed: Decides everything.
        seconds: Virtual seconds.
        without_faults: Numbers of faults, in the order in which they would be injected, that are not.
        without_operations: Operations that the clients do not begin.
    """

    seed: int
    seconds: float = RUN_SECONDS
    without_faults: frozenset[int] = frozenset()
    without_operations: frozenset[OperationId] = frozenset()

    def without(self, *, faults: Iterable[int] = (), operations: Iterable[OperationId] = ()) -> Self:
        """Return a plan that leaves out more."""
        return type(self)(
            self.seed,
            self.seconds,
            self.without_faults | frozenset(faults),
            self.without_operations | frozenset(operations),
        )
