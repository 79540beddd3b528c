"""RFC 0019, L3: who elects. That what is committed is on a majority of each voter set is CommittedIsDurable's."""

from collections import defaultdict

from model.ids import GroupId, Replica
from tests.simulation.clients.history import History, is_majority_of
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView


class ElectionsHaveMajorities(Invariant):
    """A leader has the votes of a majority of each voter set of the newest configuration in its log."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._votes: defaultdict[tuple[GroupId, int, int], set[Replica]] = defaultdict(set)

    def on_vote(self, view: ReplicaView, term: int, candidate: int) -> None:
        self._votes[view.group, term, candidate].add(view.replica)

    def on_elected(self, view: ReplicaView) -> None:
        voted = {view.replica} | self._votes[view.group, view.now.term, view.node_id]
        if not is_majority_of(view.voter_sets, voted):
            self.violated(view, f"{sorted(voted)} have elected it, the voters are {view.voter_sets}")
