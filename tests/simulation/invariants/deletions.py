"""RFC 0008 section 5: what may be deleted."""

from collections.abc import Sequence

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class Deletions(Invariant):
    """A log begins where DeleteRecords was asked to let it begin, or where retention leaves the topic's bytes behind."""

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        allowed = self.history.may_begin_at.get(view.group)
        if allowed is None:
            return  # Nobody watches who asks.
        for ghost in new:
            if ghost.start is not None and ghost.start.offset not in allowed:
                self.violated(view, f"{ghost} deletes what nobody has asked to delete")
