"""Raft paper, section 5.2: each server votes for at most one candidate in a given term, across restarts."""

from model.ids import Replica
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView


class VoteOnce(Invariant):
    """A replica gives at most one vote in a term, whatever crash lies between; a leader has its own vote."""

    def __init__(self, history):
        super().__init__(history)
        self._votes: dict[tuple[str, int, Replica], int] = {}

    def on_vote(self, view: ReplicaView, term: int, candidate: int) -> None:
        first = self._votes.setdefault((view.group, term, view.replica), candidate)
        if first != candidate:
            self.violated(view, f"its vote of term {term} went to node {first}, now to node {candidate}")

    def on_elected(self, view: ReplicaView) -> None:
        self.on_vote(view, view.now.term, view.node_id)
