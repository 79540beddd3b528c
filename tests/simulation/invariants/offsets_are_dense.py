"""RFC 0003 section 1: offsets are dense, +1 per record; entries that are not data take none."""

from collections.abc import Sequence

from storage.entry import EntryKind
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class OffsetsAreDense(Invariant):
    """Each entry begins at the offset where the one before ended; only data takes offsets; terms never fall."""

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        for ghost in added:
            before = view.at(ghost.index - 1)
            expected = 0 if before is None else before.base_offset + before.record_count
            if ghost.base_offset != expected:
                self.violated(view, f"entry {ghost.index} begins at offset {ghost.base_offset}, not {expected}")
            if (ghost.record_count > 0) != (ghost.kind is EntryKind.DATA):
                self.violated(view, f"entry {ghost.index} of kind {ghost.kind.name} has {ghost.record_count} records")
            if before is not None and ghost.term < before.term:
                self.violated(view, f"entry {ghost.index} of term {ghost.term} follows term {before.term}")
