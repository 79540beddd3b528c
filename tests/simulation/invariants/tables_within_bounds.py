"""RFC 0008, B1 and B2: the tables of raft0 and of consumer groups."""

from cluster.controller_blocks import members_size, raft0_size
from cluster.controller_state import ControllerState
from cluster.controller_tables import ControllerTables
from cluster.coordinator_log_state import CoordinatorLogState
from cluster.groups.offsets_log_state import OffsetsLogState
from model.ids import GroupId, Index, Replica
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing

# Of the heads of blocks: three numbers of up to five bytes each.
_SPARE_BYTES = 16
_COUNTS_BYTES = 8
# A registration, at most.
_BROKER_BYTES = 200


def _of_brokers(tables: ControllerTables) -> int:
    """Return the bytes that changes of brokers take beyond the bound: they are never refused for it."""
    saved = tables.members.saved()
    if saved is None:
        return 0
    return members_size(saved) + raft0_size(tables.raft0.saved) + _BROKER_BYTES * len(saved.members)


class TablesWithinBounds(Invariant):
    """No table that is committed encodes to more bytes than its bound, and its counted size is that of its snapshot.

    Changes of brokers and of raft0's voters may take more (RFC 0020). A table with features is counted by a close upper bound: the numbers in the heads of its blocks may grow.
    """

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._seen: dict[tuple[Replica, GroupId], Index] = {}

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        stepped = view.consensus._log_state._stepped
        state, key = stepped.state, (view.replica, view.group)
        if not isinstance(state, ControllerState | CoordinatorLogState) or self._seen.get(key) == stepped.applied_index:
            return
        self._seen[key] = stepped.applied_index
        encoded = sum(len(part) for part in state.snapshot())
        if isinstance(state, OffsetsLogState):
            # What is known of producers has a bound of its own; without them the table has two counts more.
            encoded = sum(len(part) for part in state.table.encode(())) - _COUNTS_BYTES
        if isinstance(state, CoordinatorLogState):
            counted, most = state.table.size_bytes, state._bytes_bound.maximum
        else:
            counted, most = state.tables.size_bytes, state._bound.maximum
            if encoded > 0.9 * most:
                # What brokers take makes the bound larger, and is counted only where that matters.
                most += _of_brokers(state.tables)
        spare = 0
        if isinstance(state, ControllerState) and state.tables.features.all():
            spare = _SPARE_BYTES
        if not encoded <= counted <= encoded + spare:
            self.violated(view, f"{counted} bytes are counted as of entry {stepped.applied_index}, it has {encoded}")
        if encoded > most:
            self.violated(view, f"{encoded} bytes as of entry {stepped.applied_index}, {most} are allowed")
        if encoded > 0.9 * most:
            self.history.counts["a table near its bound"] += 1
