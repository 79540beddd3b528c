"""Raft paper, section 5.3; RFC 0003, counterexample 5: how far a follower knows its log to be the leader's."""

from model.ids import GroupId, Replica
from raft.replica_state import Role
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class MatchedIsTheLeaders(Invariant):
    """What a follower takes for matched in a term is what the leader of this very term holds there."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._views: dict[GroupId, dict[Replica, ReplicaView]] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._views.setdefault(view.group, {})[view.replica] = view

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        for other in self._views[view.group].values():
            if other.now.term != view.now.term:
                continue
            if view.now.role is Role.LEADER and other.now.role is Role.FOLLOWER:
                self._check(other, view)
            elif other.now.role is Role.LEADER and view.now.role is Role.FOLLOWER:
                self._check(view, other)

    def _check(self, follower: ReplicaView, leader: ReplicaView) -> None:
        # Damage takes what was rightly matched.
        if follower.is_refilling:
            return
        matched = follower.consensus.state.matched_index
        if matched > follower.now.last:
            # Both have moved in one instant, as where stalled threads of several nodes go on: its own move comes next.
            return
        if matched > len(leader.entries) or follower.chain_at(matched) != leader.chain_at(matched):
            self.violated(follower, f"it takes [1, {matched}] for the same as {leader}")
