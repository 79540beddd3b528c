"""RFC 0003, levels: relaxed data is written on a majority before it is visible."""

from collections.abc import Sequence

from raft.replica_state import Role
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing


class VisibleSurvives(Invariant):
    """What a leader has shown to consumers is in the logs of leaders of all later terms, unless power loss took it."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # Per group, by chain: what was shown and then held by no majority after a power loss. Whoever still has it may
        # show it again, which binds nobody before it is committed.
        self._released: dict[str, dict[bytes, Ghost]] = {}
        # Per group and index: the term of the leader that has shown it first.
        self._terms: dict[str, dict[int, int]] = {}

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        if now.role is not Role.LEADER:
            return
        shown, released = self.history.visible_in(view.group), self._released.get(view.group)
        terms = self._terms.setdefault(view.group, {})
        first = before.visible + 1 if before.role is Role.LEADER and before.term == now.term else 1
        for index in range(first, now.visible + 1):
            ghost = view.at(index)
            assert ghost is not None
            if released and ghost.chain in released:
                continue
            if index not in shown:
                terms[index] = now.term
            known = shown.setdefault(index, ghost)
            if known.chain != ghost.chain:
                self.violated(view, f"it shows {ghost} where {known} was shown")

    def on_elected(self, view: ReplicaView) -> None:
        shown, terms = self.history.visible_in(view.group), self._terms.get(view.group, {})
        # Strictly later: a stale candidate may win an old term after a newer one has begun to show entries.
        last = max((index for index in shown if terms[index] < view.now.term), default=0)
        if last > 0 and (len(view.entries) < last or view.chain_at(last) != shown[last].chain):
            self.violated(view, f"it leads without entry {last}, which consumers could see")

    def on_power_lost(self, group: str, released: Sequence[Ghost]) -> None:
        self._released.setdefault(group, {}).update((ghost.chain, ghost) for ghost in released)

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        released = self._released.get(view.group)
        if not released:
            return
        for ghost in new:
            released.pop(ghost.chain, None)
        # What has another entry in its place for good.
        indices = {ghost.index for ghost in new}
        for chain in [chain for chain, ghost in released.items() if ghost.index in indices]:
            self.history.counts["visible entries replaced"] += 1
            del released[chain]
