"""Raft paper, figure 3, State Machine Safety, and RFC 0009: the tables behind the logs of raft0 and of groups."""

from model.ids import GroupId, Index
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView


class EqualTables(Invariant):
    """Replicas that have applied the same entries hold the same tables, however they came by them."""

    def __init__(self, history):
        super().__init__(history)
        self._known: dict[tuple[GroupId, Index], tuple[int, tuple[bytes, ...]]] = {}

    def on_table(self, view: ReplicaView, applied_index: Index, rows: tuple[bytes, ...]) -> None:
        known = self._known.setdefault((view.group, applied_index), (view.node_id, rows))
        if known[0] != view.node_id:
            self.history.counts["equal tables"] += 1
        if known[1] != rows:
            differing = sorted(set(known[1]) ^ set(rows))
            self.violated(view, f"as of entry {applied_index} node {known[0]} has other rows: {differing[:4]}")
