"""RFC 0003, levels: relaxed data is written on a majority before it is visible."""

from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.replica_view import ReplicaView, Standing


class VisibleSurvives(Invariant):
    """What a leader has shown to consumers is in every later leader's log, unless a node has lost power."""

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        if now.role is not Role.LEADER:
            return
        shown = self.history.visible_in(view.group)
        first = before.visible + 1 if before.role is Role.LEADER and before.term == now.term else 1
        for index in range(first, now.visible + 1):
            ghost = view.at(index)
            assert ghost is not None
            known = shown.get(index)
            if known is not None and known.chain != ghost.chain:
                self.history.counts["visible entries replaced"] += 1
                if not self.history.lost_power:
                    self.violated(view, f"it shows {ghost} where {known} was shown")
            shown[index] = ghost

    def on_elected(self, view: ReplicaView) -> None:
        if self.history.lost_power:
            return
        shown = self.history.visible_in(view.group)
        last = max(shown, default=0)
        if last > 0 and (len(view.entries) < last or view.chain_at(last) != shown[last].chain):
            self.violated(view, f"it leads without entry {last}, which consumers could see")
