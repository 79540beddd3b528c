"""RFC 0020, L9: a directory that is retired counts nowhere any more.

That a majority is one of the directories that a configuration names is for ElectionsHaveMajorities, CommittedIsDurable
and MatchesAreTrue: they tell the replicas of a node apart by their directories.
"""

from collections.abc import Sequence

from cluster.node import Node
from model.ids import RAFT0, DirectoryId
from raft.replica_state import Role
from rpc.identity import Peer
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class RetiredNeverCount(Invariant):
    """A broker has no link with a directory that its tables have retired, and as a leader gives it no vote."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        # By node: what its tables had retired when it was last looked at in this life.
        self._retired: dict[int, frozenset[DirectoryId]] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        if view.group == RAFT0:
            self._retired.pop(view.node_id, None)

    def on_links(self, node: Node, peers: Sequence[Peer]) -> None:
        node_id, retired = int(node.options.node_id), node.controller.members.retired
        self._retired[node_id] = retired
        for peer in peers:
            if peer.replica.directory_id in retired:
                self.violated(None, f"node {node_id} has a link with {peer.replica}, which its tables have retired")

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        retired = self._retired.get(view.node_id)
        if not retired or view.now.role is not Role.LEADER:
            return
        for ghost in added:
            if ghost.configuration is None or ghost.term != view.now.term:
                continue
            before = [each.configuration for each in view.configured if each.index < ghost.index]
            former = before[-1] if before else view.consensus.state.configurations._created_with
            voters = {voter for voters in former.voter_sets for voter in voters} if former is not None else set()
            new = {voter for voters in ghost.configuration.voter_sets for voter in voters} - voters
            wrong = [voter for voter in new if voter.directory_id in retired]
            if wrong:
                self.violated(view, f"it lets {wrong} vote, which its broker's tables have retired")
