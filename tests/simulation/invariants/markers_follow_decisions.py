"""RFC 0021, X1: the markers of a transaction equal the decision that its coordinator has stored."""

from collections.abc import Sequence
from typing import NamedTuple

from cluster.transactions.records import StoredTransaction, TransactionState
from model.control_batch import NO_PREPARE, Marker, Prepare
from model.ids import GroupId
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class _Decision(NamedTuple):
    """A Prepare in the log of a coordinator."""

    group: GroupId
    stored: StoredTransaction


class MarkersFollowDecisions(Invariant):
    """A marker is written once its decision is committed, where that says, with its type and its epoch."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # By the producer and the place of the record.
        self._decisions: dict[tuple[int, Prepare], _Decision] = {}
        # The newest view of each replica of a coordinator, by node.
        self._coordinators: dict[GroupId, dict[int, ReplicaView]] = {}

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        for ghost in added:
            for _, stored in ghost.stored:
                self._coordinators.setdefault(view.group, {})[view.node_id] = view
                if stored is not None and stored.state.is_prepare:
                    place = Prepare(ghost.term, ghost.index)
                    self._decisions[stored.producer_id, place] = _Decision(view.group, stored)
            # One that an administrator asks for has no decision.
            if ghost.marker is not None and ghost.marker.prepare != NO_PREPARE:
                self._check(view, ghost.index, ghost.marker)

    def _check(self, view: ReplicaView, index: int, marker: Marker) -> None:
        decision = self._decisions.get((marker.producer_id, marker.prepare))
        if decision is None or not self._is_committed(decision.group, marker.prepare):
            self.violated(view, f"entry {index} is {marker}, and no such decision is committed")
        stored = decision.stored
        is_abort = stored.state is TransactionState.PREPARE_ABORT
        if (stored.epoch, is_abort) != (marker.epoch, marker.is_abort):
            self.violated(view, f"entry {index} is {marker}, and the decision is {stored}")
        if view.name not in (f"{each.topic}-{each.partition}" for each in stored.partitions):
            self.violated(view, f"entry {index} is {marker}, and the transaction has no part in {view.name}")

    def _is_committed(self, group: GroupId, prepare: Prepare) -> bool:
        committed = self.history.committed_in(group)
        if prepare.index <= len(committed):
            return committed[prepare.index - 1].term == prepare.term
        # The coordinator may be on this very broker, and be looked at behind the partition.
        views = self._coordinators[group].values()
        return any(_has_committed(view, prepare) for view in views)


def _has_committed(view: ReplicaView, prepare: Prepare) -> bool:
    held = view.at(prepare.index)
    return held is not None and held.term == prepare.term and view.consensus.state.commit_index >= prepare.index
