"""The leader's process is killed: both followers become eager at once, and one of them leads soon (counterexample 38)."""

from collections.abc import Iterable

import pytest

from raft.election_timer import ElectionTimer
from raft.replica_state import Role
from tests.simulation.scenarios.scenario import QUORUM, Scenario

_DEATHS = 10
# Two draws of [0, 150) ms that collide cost a vote round and a backoff of [150, 300) ms; three collisions in a row
# are still below this, and all of it is below one election timeout.
_OFFICE_SECONDS = 1.4


def _leaders_are_killed(seeds: Iterable[int]) -> None:
    for seed in seeds:
        _a_leader_is_killed_again_and_again(seed)


def _a_leader_is_killed_again_and_again(seed: int) -> None:
    waits = []
    with Scenario(seed) as story:
        for _ in range(_DEATHS):
            story.wait(lambda: story.cluster.leader_of(story.group) is not None)
            dead, followers = story.leader, story.followers
            [write] = story.written(dead, QUORUM)
            story.wait(lambda last=write: last.is_answered)
            # Both hear it; whose draw is shorter stands first, often before it hears of the other.
            story.candidates = None
            story.kill(dead)
            killed_at = story.world.time
            story.wait(lambda: story.cluster.leader_of(story.group) is not None, _OFFICE_SECONDS)
            waits.append(story.world.time - killed_at)
            assert story.leader in followers
            story.restart(dead)
            story.run_for(0.5)
        story.converge()
    assert sum(waits) / len(waits) < 0.6


@pytest.mark.parametrize("seed", [41, 42, 43])
def test_a_killed_leader_is_replaced_soon(seed: int) -> None:
    _leaders_are_killed([seed])


@pytest.mark.parametrize("seed", range(5))
def test_two_that_stand_at_the_same_instant_do_so_for_a_bounded_number_of_rounds(seed: int) -> None:
    with Scenario(1000 + seed) as story:
        dead, followers = story.leader, story.followers
        story.kill(dead)
        killed_at, started = story.world.time, sum(story.probe(node).elections_started for node in followers)
        # Not held, and due at the same instant.
        story.candidates = None
        for node_id in followers:
            story.machine(node_id).spawn(_stand_now(story, node_id))
        story.wait(lambda: story.cluster.leader_of(story.group) is not None, _OFFICE_SECONDS)
        assert story.world.time - killed_at < _OFFICE_SECONDS
        assert sum(story.probe(node).elections_started for node in followers) - started <= 12
        story.converge()


async def _stand_now(story: Scenario, node_id: int) -> None:
    timer = story.replica(node_id)._election
    timer._heard_at = None
    timer._deadline.arm(0.0)


def test_the_next_try_would_be_an_election_timeout_away_without_draws(monkeypatch) -> None:
    def on_link_reset(timer: ElectionTimer, node_id: int) -> None:
        state = timer._context.state
        if state.role is Role.FOLLOWER and state.leader_id == node_id:
            timer._heard_at = None
            timer._deadline.arm(timer._context.now())

    monkeypatch.setattr(ElectionTimer, "on_link_reset", on_link_reset)
    monkeypatch.setattr(ElectionTimer, "_retry", ElectionTimer.rearm)
    with pytest.raises(AssertionError):
        _leaders_are_killed(range(41, 61))
