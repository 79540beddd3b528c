"""RFC 0021, X3: nothing is open once Complete is written.

That has two sides. What a coordinator calls complete is open nowhere. And a batch that begins a transaction belongs to
one that its coordinator has begun and not completed: nobody would end any other.
"""

from collections.abc import Sequence

from cluster.transactions.records import StoredTransaction
from model.ids import GroupId
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class NothingOpenOnceComplete(Invariant):
    """By what is committed, a transaction is open in a partition only while its coordinator is to end it there."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # The newest group of each partition, by its name.
        self._groups: dict[str, GroupId] = {}
        # What is open by what is committed: the epoch of the first batch, by group and producer.
        self._open: dict[tuple[GroupId, int], int] = {}
        # The committed state of each transactional id, and the last one of each producer id.
        self._stored: dict[str, StoredTransaction] = {}
        self._by_producer: dict[int, StoredTransaction] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._groups[view.name] = view.group

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        for ghost in new:
            for transactional_id, stored in ghost.stored:
                self._store(view, transactional_id, stored)
            if ghost.marker is not None:
                self._open.pop((view.group, ghost.marker.producer_id), None)
            elif ghost.is_transactional and ghost.producer is not None:
                self._begin(view, ghost.index, *ghost.producer[:2])

    def _begin(self, view: ReplicaView, index: int, producer_id: int, epoch: int) -> None:
        if (view.group, producer_id) in self._open:
            return
        self._open[view.group, producer_id] = epoch
        stored = self._by_producer.get(producer_id)
        # A scenario may write without a coordinator.
        if stored is not None and view.name not in _names(stored):
            self.violated(view, f"entry {index} begins a transaction of producer {producer_id}, which has {stored}")

    def _store(self, view: ReplicaView, transactional_id: str, stored: StoredTransaction | None) -> None:
        before = self._stored.pop(transactional_id, None)
        if before is not None and before.state.is_prepare:
            for name in sorted(_names(before)):
                group = self._groups.get(name)
                epoch = None if group is None else self._open.get((group, before.producer_id))
                if epoch is not None and epoch <= before.epoch:
                    self.violated(view, f"{transactional_id} has {stored}, and is open in {name} in epoch {epoch}")
            self.history.counts["transactions completed"] += 1
        if stored is not None:
            if before is not None and before.producer_id != stored.producer_id:
                # Nobody goes on with the former id.
                self._by_producer[before.producer_id] = stored
            self._stored[transactional_id] = self._by_producer[stored.producer_id] = stored


def _names(stored: StoredTransaction) -> set[str]:
    return {f"{each.topic}-{each.partition}" for each in stored.partitions}
