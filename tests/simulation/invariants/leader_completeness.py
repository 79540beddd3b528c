"""Raft paper, figure 3."""

from bisect import bisect_left

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView


class LeaderCompleteness(Invariant):
    """An entry that was committed in a term is in the logs of the leaders of all later terms."""

    def on_elected(self, view: ReplicaView) -> None:
        # Strictly later: a stale candidate may win an old term after a newer one has begun to commit.
        last = bisect_left(self.history.commit_terms_in(view.group), view.now.term)
        if last == 0:
            return
        gold = self.history.committed_in(view.group)[last - 1]
        if len(view.entries) < last or view.chain_at(last) != gold.chain:
            self.violated(view, f"it leads term {view.now.term} without the committed entry {gold}")
