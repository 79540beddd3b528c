"""Raft paper, figure 3."""

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class StateMachineSafety(Invariant):
    """If a replica has committed an entry at an index, no other replica ever commits a different one there."""

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        gold = self.history.committed_in(view.group)
        # Both are chains: if they agree at the newest index both know, they agree below.
        index = min(view.now.commit, len(gold))
        if index > 0 and view.chain_at(index) != gold[index - 1].chain:
            mine, theirs = view.at(index), gold[index - 1]
            self.violated(view, f"commits {mine} where {theirs} was committed")
