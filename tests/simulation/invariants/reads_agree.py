"""RFC 0003, levels: consumers see one history."""

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.replica_view import ReplicaView


class ReadsAgree(Invariant):
    """Every consumer that reads an offset gets the same batch, unless a node has lost power; and it was sent."""

    def __init__(self, history):
        super().__init__(history)
        self._batches: dict[tuple[str, int], bytes] = {}

    def on_read(self, view: ReplicaView, offset: int, record_count: int, content: bytes) -> None:
        if content not in self.history.sent:
            self.violated(view, f"offset {offset} holds a batch that nobody sent")
        known = self._batches.get((view.group, offset))
        if known is not None and known != content and not self.history.lost_power:
            self.violated(view, f"offset {offset} was read before with another content")
        self._batches[(view.group, offset)] = content
        self.history.counts["batches read"] += 1
