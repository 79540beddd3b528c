"""Raft paper, figure 3."""

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.replica_view import ReplicaView


class LeaderCompleteness(Invariant):
    """An entry that was committed in a term is in the logs of the leaders of all later terms."""

    def on_elected(self, view: ReplicaView) -> None:
        gold = self.history.committed_in(view.group)
        last = len(gold)
        if last > 0 and (len(view.entries) < last or view.chain_at(last) != gold[-1].chain):
            self.violated(view, f"it leads term {view.now.term} without the committed entry {gold[-1]}")
