"""RFC 0003 section 3: what may move, and in which direction."""

from model.ids import Replica
from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing


class Positions(Invariant):
    """commit <= flushed, commit <= visible <= last; nothing goes back in one life, nor terms across.

    What a truncation or an installed snapshot takes is gone: visible and flushed go back with it, commit never.
    """

    def __init__(self, history):
        super().__init__(history)
        self._voted_terms: dict[tuple[str, Replica], int] = {}
        # A follower forgets what it shows right before it cuts its log: where visible was, and where it went.
        self._about_to_cut: dict[tuple[str, Replica], tuple[int, int]] = {}

    def on_vote(self, view: ReplicaView, term: int, candidate: int) -> None:
        key = (view.group, view.replica)
        self._voted_terms[key] = max(term, self._voted_terms.get(key, 0))

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._about_to_cut.pop((view.group, view.replica), None)
        if view.now.term < self._voted_terms.get((view.group, view.replica), 0):
            self.violated(view, "it has voted in a later term before its restart")

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        shown = now.commit <= now.visible or self.history.shows_late(view.group)
        if not (now.commit <= now.flushed <= now.last and shown and now.visible <= now.last):
            self.violated(view, "the order of the positions is broken")
        if now.commit < before.commit or now.term < before.term:
            self.violated(view, f"commit or term went back; they were {before.commit} and {before.term}")
        if now.last != len(view.entries):
            self.violated(view, f"the log says {now.last} but {len(view.entries)} entries were seen")
        if now.truncations == before.truncations:
            if now.flushed < before.flushed or now.visible < before.visible or self._about_to_cut:
                self._check_uncut(view, before)
        elif self._about_to_cut:
            self._about_to_cut.pop((view.group, view.replica), None)

    def _check_uncut(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        if now.flushed < before.flushed:
            self.violated(view, f"flushed went back from {before.flushed}, and nothing was cut")
        if now.visible < before.visible:
            if now.role is Role.LEADER or now.visible == now.last:
                self.violated(view, f"visible went back from {before.visible}, and nothing was cut")
            self._about_to_cut[(view.group, view.replica)] = before.visible, now.visible
        elif now.visible > before.visible and self._about_to_cut:
            former, cut_to = self._about_to_cut.get((view.group, view.replica), (0, now.visible))
            if now.visible > cut_to:
                self.violated(view, f"visible went back from {former} to {cut_to} and on, and nothing was cut")
