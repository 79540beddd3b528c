"""RFC 0003 section 7: a leader that hears nobody gives up and says so; nobody waits for its silence."""

import pytest

from raft.links_raft_client import LinksRaftClient
from tests.simulation.scenarios.scenario import QUORUM, Scenario

# A draw, the wait for the longest log, and the rounds; without the word it is a whole election timeout.
_OFFICE_SECONDS = 1.0


def _replies_to_the_leader_are_lost() -> None:
    with Scenario(321) as story:
        leader, followers = story.leader, story.followers
        story.written(leader, QUORUM)
        story.candidates = set(followers)
        for follower in followers:
            story.world.network.cut(follower, leader)
        story.wait(lambda: not story.replica(leader).state.is_leader, 2.0)
        stepped_down = story.world.time
        story.wait(lambda: story.cluster.leader_of(story.group) is not None, _OFFICE_SECONDS)
        assert story.leader in followers
        assert story.world.time - stepped_down < _OFFICE_SECONDS
        story.converge()


def test_the_followers_of_a_leader_that_steps_down_elect_another_at_once() -> None:
    _replies_to_the_leader_are_lost()


def test_the_followers_wait_if_the_leader_says_nothing(monkeypatch) -> None:
    monkeypatch.setattr(LinksRaftClient, "stepped_down", lambda client, node_id, notice: None)
    with pytest.raises(AssertionError):
        _replies_to_the_leader_are_lost()
