"""What one run is asked to do: a seed, and what of it is left out. Everything else follows from the seed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

RUN_SECONDS = 60.0
# The last 15 are without faults.
SECONDS_MIN = 20.0

# Divisor and rest of the seeds of a campaign whose members change. It is part of the plan, and not of what a seed decides:
# a seed alone is the run that it was before there were any.
_LIVING = (4, 1)

# Four seeds in a row of every twelve are transactional. So a third of each kind of run is, whatever else the number of
# a seed decides.
_TRANSACTIONAL = (4, 3, 0)

# Of the transactional ones those that are crowded, for the same reason.
_CROWDED = (5, 4)

# A client's operation: the client's process, and which of its operations.
OperationId = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """One run.

    What is left out draws its chances all the same, so that all the rest stays what it was: the minimiser lives on it.

    Attributes:
        seed: Decides everything.
        seconds: Virtual seconds.
        living: Members change: five brokers, and partitions move between them (`world.living`).
        transactional: Some producers have transactions, and readers read at both levels of isolation.
        compacted: The topic is compacted: records have keys, each its own, and brokers make passes all the time.
        without_faults: Numbers of faults, in the order in which they would be injected, that are not.
        without_operations: Operations that the clients do not begin.
    """

    seed: int
    seconds: float = RUN_SECONDS
    living: bool = False
    transactional: bool = False
    compacted: bool = False
    without_faults: frozenset[int] = frozenset()
    without_operations: frozenset[OperationId] = frozenset()

    @property
    def is_crowded(self) -> bool:
        """Whether a transactional run has few epochs, and a client more whose pending offsets are overtaken."""
        divisor, rest = _CROWDED
        return self.transactional and self.seed % divisor == rest

    @classmethod
    def of_campaign(cls, seed: int, seconds: float = RUN_SECONDS) -> Self:
        """Return what a campaign runs of a seed: in every fourth one members change, a third has transactions.

        The topic of each is compacted.
        """
        divisor, rest = _LIVING
        in_a_row, rows, row = _TRANSACTIONAL
        return cls(
            seed,
            seconds,
            living=seed % divisor == rest,
            transactional=seed // in_a_row % rows == row,
            compacted=True,
        )

    def without(self, *, faults: Iterable[int] = (), operations: Iterable[OperationId] = ()) -> Self:
        """Return a plan that leaves out more."""
        return type(self)(
            self.seed,
            self.seconds,
            self.living,
            self.transactional,
            self.compacted,
            self.without_faults | frozenset(faults),
            self.without_operations | frozenset(operations),
        )
