"""Raft paper, figure 3."""

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView


class ElectionSafety(Invariant):
    """At most one leader can be elected in a given term."""

    def __init__(self, history):
        super().__init__(history)
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}

    def on_elected(self, view: ReplicaView) -> None:
        who = (view.node_id, view.life)
        first = self._leaders.setdefault((view.group, view.now.term), who)
        if first != who:
            self.violated(view, f"node {first[0]} (life {first[1]}) was elected in term {view.now.term}")
