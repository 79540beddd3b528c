"""RFC 0009, G1: what groups have committed."""

from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant


class GroupOffsets(Invariant):
    """A commit that was answered is seen by every later fetch, and no committed offset goes backwards unasked.

    The members of the simulation never ask for it: each begins with what it fetches, and commits more than that.
    """

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._floors: dict[int, int] = {}

    def floor(self, partition: int) -> int:
        """Return what a fetch that begins now must find at least; -1 while nothing was committed."""
        return self._floors.get(partition, -1)

    def on_committed(self, partition: int, offset: int) -> None:
        """A commit was answered."""
        self._floors[partition] = max(offset, self.floor(partition))

    def on_fetched(self, partition: int, offset: int, floor: int) -> None:
        """A fetch was answered; `floor` is what it was when the fetch began."""
        if offset < floor:
            self.violated(None, f"partition {partition}: {offset} was fetched after {floor} had been committed")
        self.on_committed(partition, offset)
