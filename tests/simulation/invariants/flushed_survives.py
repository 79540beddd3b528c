"""RFC 0002: what an fsync has covered is there after any crash."""

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView


class FlushedSurvives(Invariant):
    """A replica that comes back holds everything it had reported as flushed; after a SIGKILL everything written."""

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        if former is None or view.may_hold_less_than(former):
            return
        index = former.now.flushed
        if view.chain_at(min(index, len(view.entries))) != former.chain_at(index):
            self.violated(view, f"it had flushed up to {index}, and its log came back with {len(view.entries)} entries")
