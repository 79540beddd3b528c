"""Raft paper, section 5.3; RFC 0003: nothing at or below commit is ever truncated."""

from collections.abc import Sequence

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing


class Truncation(Invariant):
    """A log loses only entries that are not committed anywhere, and only to a leader of a newer term."""

    def on_truncated(self, view: ReplicaView, removed: Sequence[Ghost], before: Standing) -> None:
        gold = self.history.committed_in(view.group)
        for ghost in removed:
            if ghost.index <= len(gold) and gold[ghost.index - 1].chain == ghost.chain:
                self.violated(view, f"the committed entry {ghost} is truncated")
        if removed[-1].term >= view.now.term:
            self.violated(view, f"{removed[-1]} is truncated in its own term {view.now.term}")
