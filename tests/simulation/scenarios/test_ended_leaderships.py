"""RFC 0005 section 5: brokers without a replica stop believing in a leader that leads no more, whatever became of it."""

import pytest

from cluster import leadership
from cluster.leadership import BELIEVED_SECONDS, Leadership
from tests.feature_levels import LIVING
from tests.simulation.scenarios.scenario import Scenario

# A leader leaves office within 1.5 s, keeps silent for two looks of 0.5 s, and the message takes its way.
_TOLD_SECONDS = 3.0


class _Five(Scenario):
    """Five brokers, and one partition on three of them, whose leader every broker knows."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, nodes=5, replicas=3, features=LIVING)

    def __enter__(self) -> "_Five":
        super().__enter__()
        self.holders = [int(node) for node in self.replica(self.leader).configuration.voter_ids]
        self.outsiders = [node for node in self.world.nodes if node not in self.holders]
        self.wait(lambda: all(self.believed(node) == self.leader for node in self.world.nodes))
        return self

    def believed(self, node_id: int) -> int | None:
        """Return whom a broker takes for the leader."""
        own = self.cluster.consensus(node_id, self.group)
        if own is not None and own.is_in_office:
            return node_id
        found = self.cluster.nodes[node_id].leadership.leader_of(self.group)
        return None if found is None else int(found.node_id)

    def are_told(self) -> bool:
        return all(self.believed(node_id) is None for node_id in self.outsiders)

    def converge(self) -> None:
        """Every broker takes the leader in office for it, among much else."""
        self.candidates = None
        self.wait(self.cluster.has_converged, 30.0)

    def others_of(self, leader: int) -> list[int]:
        return [node for node in self.holders if node != leader]


def _a_leader_that_loses_its_majority() -> None:
    with _Five(871) as story:
        leader = story.leader
        story.kill(*story.others_of(leader))
        story.wait(story.are_told, _TOLD_SECONDS)
        assert story.believed(leader) is None
        # Once the majority is back somebody leads, and all are told of that.
        story.restart(*story.others_of(leader))
        story.candidates = None
        story.wait(lambda: all(story.believed(node) is not None for node in story.world.nodes), 30.0)
        story.converge()


def test_a_leader_that_loses_its_majority_tells_brokers_outside_the_group() -> None:
    _a_leader_that_loses_its_majority()


def test_brokers_outside_the_group_believe_a_leader_without_a_majority_if_it_does_not_tell(monkeypatch) -> None:
    monkeypatch.setattr(Leadership, "_push_ended", lambda leadership, peer, ended: None)
    with pytest.raises(AssertionError, match=r"not reached within 3\.0 virtual seconds"):
        _a_leader_that_loses_its_majority()


def _a_leader_that_comes_back_and_does_not_lead() -> None:
    with _Five(872) as story:
        leader = story.leader
        story.kill(*story.holders)
        story.restart(leader)
        # Its link works again, and the process that led is gone: nobody is left who could say so.
        story.wait(story.are_told, BELIEVED_SECONDS)
        story.restart(*story.others_of(leader))
        story.converge()


def test_a_leader_that_was_started_again_and_does_not_lead_is_believed_for_a_bounded_time() -> None:
    _a_leader_that_comes_back_and_does_not_lead()


def test_a_leader_that_was_started_again_would_be_believed_for_ever_if_news_did_not_age(monkeypatch) -> None:
    monkeypatch.setattr(leadership, "BELIEVED_SECONDS", float("inf"))
    with pytest.raises(AssertionError, match=r"not reached within 20\.0 virtual seconds"):
        _a_leader_that_comes_back_and_does_not_lead()


def test_the_broker_that_hears_nothing_of_a_leader_stops_believing_and_the_others_go_on() -> None:
    with _Five(873) as story:
        leader, (lonely, other) = story.leader, story.outsiders
        # From the leader to the broker only: the broker's own link with the leader may go on working.
        story.world.network.cut(leader, lonely)
        story.wait(lambda: story.believed(lonely) is None, BELIEVED_SECONDS + 1.0)
        assert story.believed(other) == story.leader == leader
        story.heal()
        story.wait(lambda: story.believed(lonely) == story.leader, 30.0)
        story.converge()


def test_the_group_that_elects_another_leader_is_led_by_that_for_everybody() -> None:
    with _Five(874) as story:
        leader = story.leader
        successor = story.others_of(leader)[0]
        story.elect_into_office(successor)
        story.wait(lambda: all(story.believed(node) == successor for node in story.world.nodes))
        # The old leader says nothing that would end the new one's news.
        story.run_for(_TOLD_SECONDS + 6.0)
        assert all(story.believed(node) == successor for node in story.world.nodes)
        story.converge()
