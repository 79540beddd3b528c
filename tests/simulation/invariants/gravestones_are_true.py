"""RFC 0019, L4: the votes that a node gives agree, also if its replica leaves and returns between them.

VoteOnce, Positions and TermsAreDurable know nothing of replicas that leave: they compare what a node says before and
after. This one looks at what it takes along.
"""

from cluster.node import Node
from model.ids import GroupId, Replica
from raft.gravestone import read_gravestone
from raft.group_configuration import Revision
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView


class GravestonesAreTrue(Invariant):
    """A replica that leaves has left a term as new as any that it has voted in, its vote, and the end of its log."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._votes: dict[tuple[GroupId, Replica], tuple[int, int]] = {}

    def on_vote(self, view: ReplicaView, term: int, candidate: int) -> None:
        key = (view.group, view.replica)
        self._votes[key] = max(self._votes.get(key, (0, 0)), (term, candidate))

    def on_elected(self, view: ReplicaView) -> None:
        self.on_vote(view, view.now.term, view.node_id)

    def on_left(self, node: Node, view: ReplicaView | None, group: GroupId, revision: Revision | None) -> None:
        gravestone = read_gravestone(node._kvstore, group)
        if view is None or revision is None:
            return
        if gravestone is None:
            self.violated(view, "it leaves without a gravestone")
        term, candidate = self._votes.get((group, view.replica), (0, 0))
        if gravestone.term < term or (gravestone.term == term > 0 and gravestone.voted_for != candidate):
            self.violated(view, f"it has voted for node {candidate} in term {term}, and leaves {gravestone}")
        log = view.consensus.log
        if (gravestone.last_term, gravestone.last_index) < (log.last_term, log.dirty_index):
            self.violated(view, f"its log ends with {log.dirty_index}@{log.last_term}, and it leaves {gravestone}")
