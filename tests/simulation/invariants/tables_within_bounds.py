"""RFC 0008, B1 and B2: the tables of raft0 and of consumer groups."""

from cluster.controller_state import ControllerState
from cluster.groups.offsets_log_state import OffsetsLogState
from model.ids import GroupId, Index
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing

# Of the heads of blocks: three numbers of up to five bytes each.
_SPARE_BYTES = 16


class TablesWithinBounds(Invariant):
    """No table that is committed encodes to more bytes than its bound, and its counted size is that of its snapshot.

    A table with features is counted by a close upper bound: the numbers in the heads of its blocks may grow.
    """

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._seen: dict[tuple[int, GroupId], Index] = {}

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        stepped = view.consensus._log_state._stepped
        state, key = stepped.state, (view.node_id, view.group)
        if not isinstance(state, ControllerState | OffsetsLogState) or self._seen.get(key) == stepped.applied_index:
            return
        self._seen[key] = stepped.applied_index
        encoded = sum(len(part) for part in state.snapshot())
        if isinstance(state, OffsetsLogState):
            counted, most = state.table.size_bytes, state._bytes_bound.maximum
        else:
            counted, most = state.tables.size_bytes, state._bound.maximum
        spare = 0
        if isinstance(state, ControllerState) and state.tables.features.all():
            spare = _SPARE_BYTES
        if not encoded <= counted <= encoded + spare:
            self.violated(view, f"{counted} bytes are counted as of entry {stepped.applied_index}, it has {encoded}")
        if encoded > most:
            self.violated(view, f"{encoded} bytes as of entry {stepped.applied_index}, {most} are allowed")
        if encoded > 0.9 * most:
            self.history.counts["a table near its bound"] += 1
