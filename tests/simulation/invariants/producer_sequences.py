"""KIP-98, RFC 0007: an idempotent producer's batches are in the log once each, in the order of their numbers."""

from collections.abc import Sequence

from model.ids import GroupId
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class ProducerSequences(Invariant):
    """What is committed of a producer id and epoch has sequence numbers without gaps, each once, in order."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._next: dict[tuple[GroupId, int, int], int] = {}

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        for ghost in new:
            if ghost.producer is None:
                continue
            producer_id, epoch, first = ghost.producer
            if first < 0:
                # Offsets that a coordinator writes in a transaction have no numbers.
                continue
            key = (view.group, producer_id, epoch)
            expected = self._next.get(key, first)
            if first != expected:
                self.violated(view, f"entry {ghost.index}: producer {producer_id} has {first}, not {expected}")
            self._next[key] = first + ghost.record_count
