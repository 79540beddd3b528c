"""RFC 0021, X4: what readers at read_committed may see follows from the log alone, and its committed part only grows."""

from dataclasses import dataclass, field

from cluster.transactions.log_state import TransactionalLogState
from model.ids import GroupId
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


@dataclass(slots=True)
class _Fold:
    """What is open by a view's entries up to `index`: where it began, by producer, in the order of the log."""

    view: ReplicaView
    truncations: int
    index: int = 0
    open: dict[int, int] = field(default_factory=dict)


class StableOffsets(Invariant):
    """The earliest transaction that a leader in office takes for open is the earliest that its visible log has open."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # Of each replica the fold of its newest view.
        self._folds: dict[tuple[int, GroupId], _Fold] = {}
        # How far readers at read_committed could read what is committed, by group and term of the leader.
        self._reached: dict[GroupId, dict[int, int]] = {}

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        if not (self.history.has_transactions and view.now.in_office):
            return
        state = view.consensus._log_state._state
        if not isinstance(state, TransactionalLogState):
            return
        if min(view.now.commit, view.now.visible) < state.restored_index:
            self.history.counts["state ahead of the log in office"] += 1
            return
        first = state.transactions.first_open_at(state.visible())
        told = None if first is None else int(first.first_index)
        fold = self._fold(view)
        true = min(fold.open.values(), default=None)
        if told != true:
            self.violated(view, f"the first open transaction began at entry {told}, and by the log at {true}")
        self.history.counts["open transactions seen in office"] += told is not None
        self._look_whether_it_goes_back(view, told)

    def _look_whether_it_goes_back(self, view: ReplicaView, told: int | None) -> None:
        end = view.now.commit if told is None else min(view.now.commit, told - 1)
        terms = self._reached.setdefault(view.group, {})
        # A deposed leader may be behind the leaders of newer terms.
        reached = max((each for term, each in terms.items() if term <= view.now.term), default=0)
        if end < reached:
            self.violated(view, f"readers may read to entry {end}, and could read to {reached} before")
        terms[view.now.term] = end

    def _fold(self, view: ReplicaView) -> _Fold:
        key = (view.node_id, view.group)
        fold = self._folds.get(key)
        is_same = fold is not None and fold.view is view and fold.truncations == view.now.truncations
        if fold is None or not is_same or fold.index > view.now.visible:
            fold = self._folds[key] = _Fold(view, view.now.truncations)
        while fold.index < view.now.visible:
            ghost = view.entries[fold.index]
            fold.index += 1
            if ghost.marker is not None:
                fold.open.pop(ghost.marker.producer_id, None)
            elif ghost.is_transactional and ghost.producer is not None:
                fold.open.setdefault(ghost.producer[0], ghost.index)
        return fold
