"""RFC 0003 section 10; counterexample 1: a leadership is confirmed by answers to its own requests."""

from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class AnswersWereAskedFor(Invariant):
    """A leader counts as answered no request that it has not sent in this leadership."""

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        if view.now.role is not Role.LEADER:
            return
        for node_id, follower in view.consensus.state.followers.items():
            if follower.answered_request > follower.sent_requests:
                answered, sent = follower.answered_request, follower.sent_requests
                self.violated(view, f"node {node_id} has answered request {answered}, the newest sent is {sent}")
