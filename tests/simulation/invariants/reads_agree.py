"""RFC 0003, levels: consumers see one history."""

from collections.abc import Sequence

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class ReadsAgree(Invariant):
    """Every consumer that reads an offset gets the same batch, unless power loss could take it; and it was sent."""

    def __init__(self, history):
        super().__init__(history)
        self._batches: dict[str, dict[int, bytes]] = {}
        # What a power loss could take, and who still has it may still serve until it learns better.
        self._released: dict[str, set[bytes]] = {}

    def on_read(self, view: ReplicaView, offset: int, record_count: int, content: bytes) -> None:
        if content not in self.history.sent:
            self.violated(view, f"offset {offset} holds a batch that nobody sent")
        self.history.counts["batches read"] += 1
        if content in self._released.get(view.group, ()):
            return
        known = self._batches.setdefault(view.group, {}).setdefault(offset, content)
        if known != content:
            self.violated(view, f"offset {offset} was read before with another content")

    def on_power_lost(self, group: str, released: Sequence[Ghost]) -> None:
        batches = self._batches.get(group, {})
        for ghost in released:
            self._released.setdefault(group, set()).add(ghost.content)
            if batches.get(ghost.base_offset) == ghost.content:
                del batches[ghost.base_offset]

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        released = self._released.get(view.group)
        if released:
            released.difference_update(ghost.content for ghost in new)
