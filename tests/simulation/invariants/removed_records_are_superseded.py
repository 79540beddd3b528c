"""RFC 0022, C1: the log by key is what it was."""

from collections.abc import Sequence

from model.ids import GroupId
from storage.entry import Entry, EntryKind
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.original_log import OriginalLog
from tests.simulation.world.replica_view import ReplicaView


class RemovedRecordsAreSuperseded(Invariant):
    """The records that a replica holds, folded by key, are those of the original log, folded by key; tombstones at or below D may be missing."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # D of each group: the largest that any replica has had. It holds for good.
        self._bounds: dict[GroupId, int] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        # A start finishes the swap of the life before, which had its bound in memory.
        if former is not None:
            self._note_bound(former)

    def on_compacted(self, view: ReplicaView, entries: Sequence[Entry]) -> None:
        self._note_bound(view)
        # The mark: the end of the pass, or of the leader's whose state was taken. Behind it nothing may be gone.
        originals, end = self.history.original_log(view.group), view.consensus.log.compacted_index
        originals.follow(end)
        for entry in entries:
            if entry.kind is EntryKind.PLACEHOLDER:
                if entry.last_index > end:
                    self.violated(view, f"entries {entry.index} to {entry.last_index} are gone, behind the end {end}")
                for index in originals.unexcused(entry.index, entry.last_index, end):
                    self._check(view, originals, index, frozenset(), end)
            elif (kept := originals.kept(entry)) is not None:
                self._check(view, originals, entry.index, kept, end)

    def _check(self, view: ReplicaView, originals: OriginalLog, index: int, kept: frozenset[int], end: int) -> None:
        """What is gone of an entry is superseded, or a delete that may go."""
        ghost, batch = originals.at(index), originals.batch(index)
        if ghost is None or index > end:
            self.violated(view, f"something of entry {index} is gone, behind the end {end}")
        bound = self._bounds[view.group]
        if ghost.marker is not None:
            if index > bound:
                self.violated(view, f"the marker at entry {index} is gone, and D is {bound}")
            return
        if ghost.start is not None:
            start = view.consensus.log.start
            if (ghost.start.index, ghost.start.offset) > (start.index, start.offset):
                self.violated(view, f"the log start at entry {index} is gone, and the log starts at {start}")
            return
        if ghost.kind is EntryKind.DATA and originals.payload(index) is None:
            self.history.counts["removed records that nobody has seen"] += 1
            return
        if batch is None:
            self.violated(view, f"entry {index} is gone, of kind {ghost.kind.name} or of a transaction that is open")
        for record, newer in zip(batch.records, batch.superseded_by, strict=True):
            if record.offset_delta in kept or newer <= end:
                continue
            offset = ghost.base_offset + record.offset_delta
            if not record.deletes:
                self.violated(view, f"the newest record of {record.key!r} up to {end}, at offset {offset}, is gone")
            if index > bound:
                self.violated(view, f"the tombstone of {record.key!r} at entry {index} is gone, and D is {bound}")
            self.history.counts["tombstones gone, seen"] += 1

    def _note_bound(self, view: ReplicaView) -> None:
        self._bounds[view.group] = max(self._bounds.get(view.group, 0), view.consensus.deletes_to)
