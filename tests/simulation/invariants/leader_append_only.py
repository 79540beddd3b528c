"""Raft paper, figure 3."""

from collections.abc import Sequence

from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing


class LeaderAppendOnly(Invariant):
    """A leader never overwrites or deletes entries in its log; it only appends."""

    def on_truncated(self, view: ReplicaView, removed: Sequence[Ghost], before: Standing) -> None:
        if before.role is Role.LEADER and view.now.role is Role.LEADER and before.term == view.now.term:
            self.violated(view, f"the leader of term {before.term} has removed entries from {removed[0].index} on")
