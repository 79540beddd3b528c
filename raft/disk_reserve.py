"""Free disk space of this node, and of the voters that it hears, compared with the reserve.

    free bytes   0 ..... reserve .................................
                 | kept  | producers are taken

Only a leader that admits producers checks it (counterexample 37). A follower appends into the reserve, so barriers,
raft0 and truncations have room, and reads and elections continue while producers are refused. If an append finds no
room at all, its node stands for no election until it has seen room again.
"""

from collections.abc import Callable, Sequence

from model.ids import NodeId
from raft.rules.agreement import Quorum

# A barrier, the votes and a few commands go into this.
_ROOM_TO_STAND = 1024 * 1024


class DiskReserve:
    """One node's view: the last look at the disk less what was appended since, and what the peers said of theirs.

    So no produce call touches the disk, and a fast writer cannot run through the reserve between two looks.
    """

    def __init__(self, node_id: NodeId, reserve: int) -> None:
        self._node_id = node_id
        self._reserve = reserve
        self._below: set[NodeId] = set()
        # Free bytes wanted before this node stands for election again, 0 if it may.
        self._wanted = 0
        self._has_looked = False
        # Free bytes above the reserve, 0 before the first look: what is not known stands in nobody's way.
        self.spare_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether an append here found no room, and no room has been seen since."""
        return self._wanted > 0

    @property
    def nodes_below(self) -> tuple[NodeId, ...]:
        """The nodes known to be below their reserve, in ascending order."""
        return tuple(sorted(self._below))

    def update_free(self, free_bytes: int) -> None:
        """This node's disk has so many bytes left."""
        self._has_looked = True
        self.spare_bytes = free_bytes - self._reserve
        self.update_spare(self._node_id, self.spare_bytes)
        if free_bytes >= self._wanted:
            self._wanted = 0

    def change_reserve(self, reserve: int) -> None:
        """So many bytes are kept from now on."""
        if self._has_looked:
            self.spare_bytes += self._reserve - reserve
            self.update_spare(self._node_id, self.spare_bytes)
        self._reserve = reserve

    def count_appended(self, size: int) -> None:
        """So many bytes were written to logs here."""
        if self._has_looked:
            self.spare_bytes -= size
            if self.spare_bytes < 0:
                self._below.add(self._node_id)

    def update_spare(self, node_id: NodeId, spare_bytes: int) -> None:
        """A node has so many bytes above its reserve."""
        if spare_bytes < 0:
            self._below.add(node_id)
        else:
            self._below.discard(node_id)

    def on_disk_full(self, size: int) -> None:
        """An append of `size` bytes found no room here."""
        self._wanted = max(self._wanted, _ROOM_TO_STAND, min(2 * size, self._reserve))

    def admits(self, quorums: Sequence[Quorum], is_up: Callable[[NodeId], bool]) -> bool:
        """Whether producers may write to a group whose entries need these quorums.

        While any disk is short a voter that cannot be reached counts as short too: what is written would have to fit
        on the others.
        """
        if not self._below:
            return True
        for members, k in quorums:
            with_room = sum(
                member not in self._below and (member == self._node_id or is_up(member)) for member in members
            )
            if with_room < k and not self._below.isdisjoint(members):
                return False
        return True
