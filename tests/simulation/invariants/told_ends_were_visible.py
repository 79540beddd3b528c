"""RFC 0003 section 10, KIP-207: no answer says that the log ends behind what consumers may read."""

from model.ids import GroupId
from raft.replica_state import Role
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class ToldEndsWereVisible(Invariant):
    """A latest offset, high watermark or group's offset that a client is told is not beyond what was visible by then."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # The offset behind the last entry that any leader has shown.
        self._ends: dict[GroupId, int] = {}

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        if now.role is not Role.LEADER or now.visible == 0:
            return
        last = view.at(now.visible)
        assert last is not None
        end = last.base_offset + last.record_count
        if end > self._ends.get(view.group, 0):
            self._ends[view.group] = end

    def on_told_end(self, group: GroupId, end: int) -> None:
        shown = self._ends.get(group, 0)
        if end > shown:
            self.violated(None, f"{group}: a client is told {end}, and nothing from {shown} on was ever visible")

    def on_group_offset(self, group: GroupId, offset: int) -> None:
        shown = self._ends.get(group, 0)
        if offset > shown:
            self.violated(None, f"{group}: {offset} is committed for a group, and nothing from {shown} on was visible")
