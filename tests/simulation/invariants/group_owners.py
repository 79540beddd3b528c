"""RFC 0009, G2 and G4: who owns what in a generation, and until when."""

from collections.abc import Iterable

from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant


class GroupOwners(Invariant):
    """A generation gives each partition to one member, and who belongs to an older one is told no success any more."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._owners: dict[tuple[int, int], str] = {}
        # The newest generation of which any member has got its assignment.
        self.newest = 0

    def on_assigned(self, member: str, generation: int, partitions: Iterable[int]) -> None:
        """A member has got its part; a static member is known by its instance id in all of its lives."""
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), member)
            if owner != member:
                self.violated(None, f"partition {partition} of generation {generation} is {owner}'s and {member}'s")
        self.newest = max(self.newest, generation)

    def on_success(self, what: str, member: str, generation: int, newest: int) -> None:
        """A member of a generation was told a success; `newest` is what it was when the request began."""
        if generation < newest:
            self.violated(None, f"{what} of {member} in generation {generation} after {newest} was assigned")
