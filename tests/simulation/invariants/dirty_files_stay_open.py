"""RFC 0002 section 12: what no fsync has covered is in files that are open."""

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class DirtyFilesStayOpen(Invariant):
    """A descriptor that is opened after a failed write-back need not be told of it: the one that wrote is kept."""

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        log = view.consensus.log
        for segment in log._segments._dirty:
            if not segment.file.is_open and not log.is_poisoned:
                self.violated(view, f"{segment.name} holds bytes that were not fsynced, and was closed")
