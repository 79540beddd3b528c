"""RFC 0021, X2 and X7: each transaction of a partition ends once, and nothing of a fenced epoch follows its marker."""

from collections.abc import Sequence

from model.control_batch import NO_PREPARE, Marker, Prepare
from model.ids import GroupId
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class MarkersEndTransactions(Invariant):
    """A partition has one marker per producer and decision; it names what it ends, and older epochs are over."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # Of each group and producer: the offset at which what is open began, and the epoch that a marker has left.
        self._open: dict[tuple[GroupId, int], int] = {}
        self._epochs: dict[tuple[GroupId, int], int] = {}
        self._ended: set[tuple[GroupId, int, Prepare]] = set()

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        # A broker may have written a marker in the very step in which it was killed.
        self._note_sent(view.entries)

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        self._note_sent(added)

    def _note_sent(self, entries: Sequence[Ghost]) -> None:
        # What a broker writes is no phantom.
        self.history.sent.update(ghost.content for ghost in entries if ghost.marker is not None)

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        for ghost in new:
            if ghost.marker is not None:
                self._end(view, ghost, ghost.marker)
            elif ghost.is_transactional and ghost.producer is not None:
                producer_id, epoch, _ = ghost.producer
                fenced = self._epochs.get((view.group, producer_id), epoch)
                if epoch < fenced:
                    self.violated(
                        view, f"entry {ghost.index}: producer {producer_id} has epoch {epoch}, after {fenced}"
                    )
                self._open.setdefault((view.group, producer_id), ghost.base_offset)

    def _end(self, view: ReplicaView, ghost: Ghost, marker: Marker) -> None:
        key = (view.group, marker.producer_id)
        first = self._open.pop(key, None)
        self._epochs[key] = max(marker.epoch, self._epochs.get(key, marker.epoch))
        if marker.prepare == NO_PREPARE:
            return
        decision = (*key, marker.prepare)
        if decision in self._ended:
            self.violated(view, f"entry {ghost.index} is a second marker of {marker}")
        self._ended.add(decision)
        if first != marker.first_offset:
            self.violated(view, f"entry {ghost.index} ends what began at {marker.first_offset}: {first} is open")
        self.history.counts["transactions ended in a partition"] += 1
