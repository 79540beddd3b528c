"""Members of a group change in a whole cluster, step by step (Raft thesis, chapter 4; RFC 0019)."""

import pytest

from cluster.placements import AlterPlacementsRequest, WantedMove
from raft import replica_state
from raft.rules import agreement
from tests.feature_levels import LIVING
from tests.simulation.invariants.invariant import InvariantBrokenError
from tests.simulation.scenarios.scenario import QUORUM, Scenario, Write
from tests.simulation.world.cluster import TOPIC

NODES = [1, 2, 3, 4, 5]


class Members(Scenario):
    """Five brokers, and one partition on three of them."""

    def __init__(self, seed: int, replicas: int = 3) -> None:
        super().__init__(seed, nodes=5, replicas=replicas, features=LIVING)

    @property
    def voters(self) -> list[int]:
        """Of the leader's configuration."""
        return [int(node) for node in self.replica(self.leader).configuration.voter_ids]

    def ask(self, target: list[int] | None) -> None:
        """Ask a broker for other replicas; None: for those before the move."""
        node = self.cluster.nodes[self.leader]
        request = AlterPlacementsRequest([WantedMove(TOPIC, 0, target)], True, 5.0)
        self.machine(self.leader).spawn(node.placements.alter(request))

    def until_placed(self, target: list[int]) -> None:
        """Wait until these brokers, and no others, hold the partition, and all tables and disks say so."""
        self.candidates = None
        self.wait(lambda: self.cluster.has_converged() and sorted(self.voters) == sorted(target), 30.0)


def _disjoint_majorities(story: Members) -> tuple[Write, Write]:
    """The leader asks for five voters instead of three, and is alone with the two new ones when it does.

    Three of the five are on its side, two of the three on the other (thesis, figure 4.3).
    """
    leader = story.leader
    left = [node for node in story.voters if node != leader]
    new = [node for node in NODES if node not in story.voters]
    story.ask(NODES)
    story.wait(lambda: story.replica(leader).configuration.is_joint)
    story.connect([leader, *new], left)
    story.elect_into_office(left[0])
    ours, theirs = story.write(leader, QUORUM), story.write(left[0], QUORUM)
    story.run_for(2.0)
    return ours, theirs


def test_two_majorities_of_old_and_new_voters_do_not_both_decide() -> None:
    with Members(1) as story:
        ours, theirs = _disjoint_majorities(story)
        assert ours.result is None
        assert theirs.result is not None
        story.heal()
        story.until_placed(NODES)
        assert all(story.holds(node, theirs) for node in NODES)


def test_disjoint_majorities_commit_if_the_new_voters_alone_do(monkeypatch: pytest.MonkeyPatch) -> None:
    commit_point = agreement.commit_point
    monkeypatch.setattr(replica_state.agreement, "commit_point", lambda sets, *rest: commit_point(sets[-1:], *rest))
    with Members(1) as story, pytest.raises(InvariantBrokenError, match="CommittedIsDurable"):
        _disjoint_majorities(story)


def test_a_partition_goes_from_three_replicas_to_five_and_to_one_under_load() -> None:
    with Members(2) as story:
        written: list[Write] = []
        for target in (NODES, [5], [2, 4, 1]):
            story.ask(target)
            for _ in range(20):
                # While a leader that leaves hands over, nobody is in office.
                leader = story.cluster.leader_of(story.group)
                if leader is not None:
                    written.append(story.write(leader, QUORUM))
                story.run_for(0.05)
            story.until_placed(target)
        story.cluster.observer.at_end()
        acknowledged = [write for write in written if write.result is not None]
        # A leader that has just left refuses, and nothing else does.
        assert len(acknowledged) > 50
        assert all(story.holds(node, write) for write in acknowledged for node in (1, 2, 4))
