"""Raft paper, section 5.4.2 and figure 8."""

from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class CommitRule(Invariant):
    """A leader commits by counting replicas only up to an entry of its own term."""

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        if now.role is Role.LEADER and now.commit > before.commit and before.role is Role.LEADER:
            ghost = view.at(now.commit)
            if ghost is None or ghost.term != now.term:
                self.violated(view, f"the leader of term {now.term} has moved commit to {ghost}")
