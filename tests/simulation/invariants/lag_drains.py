"""RFC 0003, levels and recovery: what is written becomes visible, and reaches every replica, in bounded time."""

from collections import deque
from collections.abc import Sequence

from model.ids import GroupId
from raft.replica_state import Role
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView

# After the last fault, or after the leader or a replica of the group has changed.
_CALM_SECONDS = 5.0
_LAG_SECONDS = 1.0


class LagDrains(Invariant):
    """Five seconds after the last trouble all that a leader has written is within one on all replicas, and visible."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._lives: dict[GroupId, int] = {}
        # Per group: which calm it is, since when, and where the leader's log ended at which times of it.
        self._calms: dict[GroupId, tuple[object, float, deque[tuple[float, int]]]] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._lives[view.group] = self._lives.get(view.group, 0) + 1

    def on_quiet(self, seconds: float, group: GroupId, views: Sequence[ReplicaView]) -> None:
        leaders = [view for view in views if view.now.role is Role.LEADER and view.now.in_office]
        if not leaders or any(view.is_refilling for view in views):
            # That there is one in the end, and nothing is left to refill, is asked for elsewhere.
            self._calms.pop(group, None)
            return
        leader = max(leaders, key=lambda view: view.now.term)
        which = self._lives.get(group), leader.node_id, leader.now.term
        if group not in self._calms or self._calms[group][0] != which:
            self._calms[group] = which, seconds, deque()
        _, since, ends = self._calms[group]
        ends.append((seconds, leader.now.last))
        while len(ends) > 1 and ends[1][0] <= seconds - _LAG_SECONDS:
            ends.popleft()
        if seconds - since < _CALM_SECONDS:
            return
        self.history.counts["lags measured"] += 1
        due = ends[0][1]
        if leader.now.visible < due:
            self.violated(leader, f"entry {due} is in its log since {ends[0][0]:.1f} s, and not visible")
        for view in views:
            # One that has moved away stays for a moment, and gets nothing any more.
            if view.now.last < due and view.node_id in leader.configuration.node_ids:
                self.violated(view, f"it does not hold entry {due}, in the leader's log since {ends[0][0]:.1f} s")
