"""RFC 0003, S2 ("a match is true"): what a leader counts for a follower, the follower really holds."""

from cluster.node import Node
from model.ids import GroupId, Replica
from raft.group_configuration import Revision
from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class MatchesAreTrue(Invariant):
    """Where a leader counts an entry as fsynced on a follower of its term, that follower has fsynced this entry."""

    def __init__(self, history):
        super().__init__(history)
        self._views: dict[tuple[str, Replica], ReplicaView] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._views[(view.group, view.replica)] = view

    def on_left(self, node: Node, view: ReplicaView | None, group: GroupId, revision: Revision | None) -> None:
        self._views.pop((group, node.replica), None)

    def on_disk_lost(self, view: ReplicaView) -> None:
        self._views.pop((view.group, view.replica), None)

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        if view.now.role is not Role.LEADER:
            return
        for node_id, follower in view.consensus.state.followers.items():
            replica = view.consensus.configuration.replica_on(node_id)
            other = None if replica is None else self._views.get((view.group, replica))
            # One that has moved on to a newer term may have truncated since; damage takes what was rightly counted.
            if other is None or other.now.term != view.now.term or other.is_refilling:
                continue
            flushed = follower.position.flushed
            if other.now.flushed < flushed or other.chain_at(flushed) != view.chain_at(flushed):
                self.violated(view, f"it counts {flushed} as fsynced on {other}")
