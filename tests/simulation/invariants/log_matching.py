"""Raft paper, figure 3."""

from collections.abc import Sequence

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class LogMatching(Invariant):
    """If two logs hold an entry with the same index and term, they are identical up to that entry."""

    def __init__(self, history):
        super().__init__(history)
        self._chains: dict[tuple[str, int, int], bytes] = {}

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        for ghost in added:
            known = self._chains.setdefault((view.group, ghost.index, ghost.term), ghost.chain)
            if known != ghost.chain:
                self.violated(view, f"entry {ghost.index}@{ghost.term} differs from the same entry elsewhere")

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self.on_appended(view, view.entries)
