"""RFC 0021, X6: the rows of aborted transactions are exactly the ABORT markers."""

from collections.abc import Sequence

from model.ids import Offset
from storage.aborted_rows import NO_ROWS, AbortedRow, aborted_row
from storage.entry import Entry
from storage.segment import Segment, is_control
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView

_EVERYWHERE = Offset(2**63 - 1)


def _rows_in(entries: Sequence[Entry]) -> list[AbortedRow]:
    found = (aborted_row(entry) for entry in entries if is_control(entry))
    return [row for row in found if row is not None]


class RowsAreAbortMarkers(Invariant):
    """The segment that is written, and each that a pass puts in place, has a row for each ABORT marker in it, and no other."""

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        # Rows of closed segments are in index files: the model of them is tests/unit/storage/test_aborted_rows_model.
        if all(ghost.marker is None for ghost in added):
            return
        segment = view.consensus.log._segments[-1]
        if segment.base_index <= view.consensus.log.compacted_index:
            # The leader may have sent a placeholder in the place of a marker.
            entries = view.entries_of(segment)
            if not entries:
                return  # It has rotted.
            true = _rows_in(entries)
        else:
            true = [
                AbortedRow(ghost.marker.producer_id, Offset(ghost.marker.first_offset), Offset(ghost.base_offset))
                for ghost in view.entries[segment.base_index - 1 :]
                if ghost.marker is not None and ghost.marker.is_abort
            ]
        self._compare(view, segment, true)
        self.history.counts["rows of aborted transactions seen"] += len(true)

    def on_swapped(self, view: ReplicaView, segment: Segment, entries: Sequence[Entry]) -> None:
        # Of the markers in the file: those that the pass has removed have no row any more.
        true = _rows_in(entries)
        self._compare(view, segment, true)
        self.history.counts["rows of aborted transactions seen in cleaned segments"] += len(true)

    def _compare(self, view: ReplicaView, segment: Segment, true: list[AbortedRow]) -> None:
        told = [] if segment.rows is None else segment.rows.within(Offset(0), _EVERYWHERE)
        if told != true:
            self.violated(view, f"the segment from entry {segment.base_index} on has the rows {told}, not {true}")
        lowest = min((row.first_offset for row in true), default=NO_ROWS)
        if segment.lowest_first != lowest:
            self.violated(view, f"{segment.name}: the first row begins at {segment.lowest_first}, not at {lowest}")
