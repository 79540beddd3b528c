"""RFC 0003, levels: nobody sees a write at quorum_ack before a majority has it on disk."""

from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class QuorumWritesWait(Invariant):
    """A leader shows what was sent at acks=all, without write.caching, only once it is committed."""

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        if now.role is not Role.LEADER or now.visible <= now.commit:
            return
        for ghost in view.entries[max(now.commit, before.visible) : now.visible]:
            if ghost.content in self.history.sent_at_quorum:
                self.violated(view, f"entry {ghost.index} is visible and not committed: it was sent at acks=all")
