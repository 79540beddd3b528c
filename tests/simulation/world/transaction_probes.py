"""Probes of transactional runs: which rare sights of transactions such runs must have seen."""

from collections.abc import Callable
from typing import Any

from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.groups.pending_offsets import PendingKey
from cluster.producer_errors import MarkerRefusedError, NotAdmittedError
from cluster.transactions.log_state import TransactionalLogState
from cluster.transactions.records import NO_PRODUCER_ID
from cluster.transactions.transactions_log_state import TransactionsLogState
from raft.replicate_item import NewEntry
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing

SOMETIMES_TRANSACTIONAL = (
    "client paused in a transaction",
    "client transaction left open",
    "client transaction PRODUCER_FENCED",
    "client transformed",
    "client offsets of a member in a transaction",
    "client offsets of a former member refused",
    "client txn ok",
    "open transactions seen in office",
    "transactions ended in a partition",
    # The brokers' own counters.
    "transactions markers_resent",
    "transactions timed_out",
    # Those of this module.
    "an epoch exhausted",
    "a pending offset overtaken",
)
# Sights that a few runs may miss: a marker comes within the moment between an admission and its append, and a replica
# loses entries to a power loss behind its snapshot. A campaign must have seen them.
SELDOM_TRANSACTIONAL = ("a guard refused", "a state ahead of its log")


class TransactionProbes(Invariant):
    """Objects to nothing, and counts."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._overtaken: set[tuple[PendingKey, int]] = set()
        # Transactional ids, and the producer ids that they had before another one.
        self._exhausted: set[tuple[str, int]] = set()

    def _count(self, name: str) -> None:
        self.history.counts[name] += 1

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        state: Any = view.consensus._log_state._state
        if isinstance(state, TransactionalLogState):
            if state.restored_index > view.now.last:
                self._count("a state ahead of its log")
            state.admit = self._watched(state.admit)  # type: ignore[attr-defined]

    def _watched(self, admit: Callable[[NewEntry], object]) -> Callable[[NewEntry], object]:
        def admitted(entry: NewEntry) -> object:
            verdict = admit(entry)
            if entry.guard is not None and isinstance(verdict, NotAdmittedError):
                self._count("a guard refused")
            if isinstance(verdict, MarkerRefusedError):
                self._count("a marker refused")
            return verdict

        return admitted

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        state: Any = view.consensus._log_state._state
        if isinstance(state, OffsetsLogState):
            self._look_at_offsets(state)
        elif isinstance(state, TransactionsLogState):
            self._look_at_ids(state)

    def _look_at_offsets(self, state: OffsetsLogState) -> None:
        for key, _ in state.table.pending:
            is_overtaken = state.table.pending.is_overtaken(key.place, key.log_index)
            if is_overtaken and (key, key.log_index) not in self._overtaken:
                self._overtaken.add((key, key.log_index))
                self._count("a pending offset overtaken")

    def _look_at_ids(self, state: TransactionsLogState) -> None:
        for transactional_id in state.table.transactional_ids():
            placed = state.table.get(transactional_id)
            former = NO_PRODUCER_ID if placed is None else placed.stored.previous_producer_id
            if former != NO_PRODUCER_ID and (transactional_id, former) not in self._exhausted:
                self._exhausted.add((transactional_id, former))
                self._count("an epoch exhausted")
