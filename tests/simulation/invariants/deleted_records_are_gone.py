"""RFC 0022, C4: a tombstone or a marker goes last."""

from collections.abc import Sequence

from cluster.node import Node
from model.ids import GroupId
from raft.group_configuration import GroupConfiguration, Revision
from storage.entry import Entry, EntryKind
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.original_log import OriginalLog
from tests.simulation.world.replica_view import Ghost, ReplicaView

# Of one entry: the offset deltas of the records that are left; None: all.
_Kept = frozenset[int] | None
_NOTHING: frozenset[int] = frozenset()


class _Replica:
    """What one replica holds of entries that were compacted somewhere; what lies behind `kept` is whole."""

    def __init__(self, view: ReplicaView) -> None:
        self.view = view
        self.kept: list[_Kept] = []

    def take(self, entry: Entry, kept: _Kept) -> None:
        missing = entry.last_index - len(self.kept)
        if missing > 0:
            self.kept += [None] * missing
        self.kept[entry.index - 1 : entry.last_index] = [kept] * (entry.last_index - entry.index + 1)

    def holds(self, index: int, delta: int) -> bool:
        if not self.view.consensus.log.start_index <= index <= len(self.view.entries):
            return False
        kept = self.kept[index - 1] if index <= len(self.kept) else None
        return kept is None or delta in kept


class _Group:
    """What is known of one group.

    Attributes:
        replicas: By node, those with a disk.
        deleted: What removed tombstones and markers had superseded: offset deltas by entry.
        seen: Removed tombstones and markers.
        configuration: The newest that is committed.
        last_deleted: The last entry of `deleted`.
    """

    def __init__(self) -> None:
        self.replicas: dict[int, _Replica] = {}
        self.deleted: dict[int, set[int]] = {}
        self.seen: set[tuple[int, int]] = set()
        self.configuration: GroupConfiguration | None = None
        self.last_deleted = 0

    def is_member(self, view: ReplicaView) -> bool:
        return self.configuration is None or view.replica in self.configuration.replicas


class DeletedRecordsAreGone(Invariant):
    """No member holds what a removed tombstone or marker had superseded."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._groups: dict[GroupId, _Group] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        group = self._groups.setdefault(view.group, _Group())
        group.replicas[view.node_id] = _Replica(view)
        if group.last_deleted:
            self._check_whole(group, view, view.entries)

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        group = self._groups[view.group]
        if added[0].index <= group.last_deleted:
            self._check_whole(group, view, added)

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        for ghost in new:
            if ghost.configuration is not None:
                self._groups[view.group].configuration = ghost.configuration

    def on_left(self, node: Node, view: ReplicaView | None, group: GroupId, revision: Revision | None) -> None:
        if view is not None:
            self._forget(view)

    def on_disk_lost(self, view: ReplicaView) -> None:
        self._forget(view)

    def on_disk_taken_out(self, view: ReplicaView) -> None:
        self._forget(view)

    def _forget(self, view: ReplicaView) -> None:
        self._groups[view.group].replicas.pop(view.node_id, None)

    def on_compacted(self, view: ReplicaView, entries: Sequence[Entry]) -> None:
        group, originals = self._groups[view.group], self.history.original_log(view.group)
        replica, end = group.replicas[view.node_id], view.consensus.log.compacted_index
        originals.follow(end)
        found: list[tuple[int, int]] = []
        for entry in entries:
            kept = originals.kept(entry)
            replica.take(entry, kept)
            if entry.kind is EntryKind.PLACEHOLDER:
                for index in originals.unexcused(entry.index, entry.last_index, end):
                    found += self._removed(group, originals, index, _NOTHING, end)
            elif kept is not None:
                found += self._removed(group, originals, entry.index, kept, end)
        for index, delta in found:
            for each in group.replicas.values():
                self._check(group, each, index, delta)
        if entries[0].index <= group.last_deleted:
            for entry in entries:
                for delta in group.deleted.get(entry.index, ()):
                    self._check(group, replica, entry.index, delta)

    def _removed(
        self, group: _Group, originals: OriginalLog, index: int, kept: frozenset[int], end: int
    ) -> list[tuple[int, int]]:
        """Note the deletes of an entry that are gone; return what they had superseded, as far as that is news."""
        found: list[tuple[int, int]] = []
        if (index, -1) not in group.seen:
            group.seen.add((index, -1))
            for each in originals.aborted_by(index):
                ghost = originals.at(each)
                assert ghost is not None
                found += [(each, delta) for delta in range(ghost.record_count)]
        for record in originals.removed_deletes(index, kept, end):
            if record in group.seen:
                continue
            group.seen.add(record)
            self.history.counts["tombstones gone from every member"] += 1
            older = originals.older(record)
            while older is not None:
                found.append((older.index, originals.delta(older)))
                older = originals.older(older)
        for at, delta in found:
            group.deleted.setdefault(at, set()).add(delta)
            group.last_deleted = max(group.last_deleted, at)
        return found

    def _check_whole(self, group: _Group, view: ReplicaView, entries: Sequence[Ghost]) -> None:
        """Entries behind the mark are whole; `on_compacted` is told of the others."""
        mark, last = view.consensus.log.compacted_index, min(group.last_deleted, entries[-1].index if entries else 0)
        for index in range(max(mark + 1, entries[0].index if entries else 1), last + 1):
            for delta in group.deleted.get(index, ()):
                self._check(group, group.replicas[view.node_id], index, delta)

    def _check(self, group: _Group, replica: _Replica, index: int, delta: int) -> None:
        view = replica.view
        if replica.holds(index, delta) and group.is_member(view):
            ghost = self.history.committed_in(view.group)[index - 1]
            what = f"the record at offset {ghost.base_offset + delta}, entry {index}"
            self.violated(view, f"it holds {what}; the tombstone or marker that deletes it is gone from a member")
