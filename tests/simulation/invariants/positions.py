"""RFC 0003 section 3: what may move, and in which direction."""

from tests.simulation.invariants.invariant import Invariant
from tests.simulation.replica_view import ReplicaView, Standing


class Positions(Invariant):
    """commit <= flushed, commit <= visible <= last; commit and term never go back in one life, nor terms across."""

    def __init__(self, history):
        super().__init__(history)
        self._voted_terms: dict[tuple[str, int], int] = {}

    def on_vote(self, view: ReplicaView, term: int, candidate: int) -> None:
        key = (view.group, view.node_id)
        self._voted_terms[key] = max(term, self._voted_terms.get(key, 0))

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        if view.now.term < self._voted_terms.get((view.group, view.node_id), 0):
            self.violated(view, "it has voted in a later term before its restart")

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        now = view.now
        shown = now.commit <= now.visible or self.history.shows_on_more_than_a_majority
        if not (now.commit <= now.flushed <= now.last and shown and now.visible <= now.last):
            self.violated(view, "the order of the positions is broken")
        if now.commit < before.commit or now.term < before.term:
            self.violated(view, f"commit or term went back; they were {before.commit} and {before.term}")
        if now.last != len(view.entries):
            self.violated(view, f"the log says {now.last} but {len(view.entries)} entries were seen")
