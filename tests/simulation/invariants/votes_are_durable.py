"""Raft paper, figure 2: persistent state is updated on stable storage before responding to RPCs."""

import msgspec

from model.ids import GroupId
from raft.vote_store import PersistedVote, vote_key
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView


class VotesAreDurable(Invariant):
    """A vote is durable before anybody is told, and a replica begins its next life with it."""

    def __init__(self, history):
        super().__init__(history)
        self._removed: set[GroupId] = set()

    def on_removed(self, node_id: int, group: GroupId, *, is_in_table: bool) -> None:
        # Its votes go with it, also one that is just being given.
        self._removed.add(group)

    def on_vote(self, view: ReplicaView, term: int, candidate: int) -> None:
        stored = self._stored(view)
        if view.group in self._removed:
            return
        if (stored.term, stored.voted_for) != (term, candidate) and stored.term <= term:
            self.violated(view, f"it votes for node {candidate} in term {term}, durable is {stored}")

    def on_elected(self, view: ReplicaView) -> None:
        self.on_vote(view, view.now.term, view.node_id)

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        stored, state = self._stored(view), view.consensus.state
        if view.now.term < stored.term or (view.now.term == stored.term and state.voted_for != stored.voted_for):
            self.violated(view, f"it begins with the vote for {state.voted_for}, durable is {stored}")

    @staticmethod
    def _stored(view: ReplicaView) -> PersistedVote:
        stored = view.consensus._context.kvstore._durable.get(vote_key(view.group))
        return PersistedVote(0, None) if stored is None else msgspec.msgpack.decode(stored, type=PersistedVote)
