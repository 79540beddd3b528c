"""RFC 0019, L2: which configuration may follow which."""

from collections.abc import Sequence

from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView, may_follow, voter_sets_of


class ConfigurationsFollowTheSteps(Invariant):
    """Voters change by a joint configuration only: simple to joint with the same first set, joint to one of its sets.

    So a majority that decides by one configuration has a voter in common with each that decides by its neighbour.
    """

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        if view.now.role is not Role.LEADER:
            return
        for ghost in added:
            if ghost.configuration is None or ghost.term != view.now.term:
                continue
            former, new = voter_sets_of(view.configuration_before(ghost.index)), voter_sets_of(ghost.configuration)
            if not may_follow(former, new):
                self.violated(view, f"it appends {ghost} with the voters {new} behind {former}")
