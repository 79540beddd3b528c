"""RFC 0021, X6: the rows of aborted transactions are exactly the ABORT markers."""

from collections.abc import Sequence

from storage.aborted_rows import AbortedRow
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView

_EVERYWHERE = 2**63 - 1


class RowsAreAbortMarkers(Invariant):
    """The segment that is written has a row for each ABORT marker in it, and no other."""

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        # Rows of closed segments are in index files: the model of them is tests/unit/storage/test_aborted_rows_model.
        if all(ghost.marker is None for ghost in added):
            return
        segment = view.consensus.log._segments[-1]
        told = [] if segment.rows is None else segment.rows.within(0, _EVERYWHERE)
        true = [
            AbortedRow(ghost.marker.producer_id, ghost.marker.first_offset, ghost.base_offset)
            for ghost in view.entries[segment.base_index - 1 :]
            if ghost.marker is not None and ghost.marker.is_abort
        ]
        if told != true:
            self.violated(view, f"the segment from entry {segment.base_index} on has the rows {told}, not {true}")
        self.history.counts["rows of aborted transactions seen"] += len(true)
