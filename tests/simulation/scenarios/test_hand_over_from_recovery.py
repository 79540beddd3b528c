"""A follower that rejoins under load is recovered and handed over to the rounds in one step (RFC 0004)."""

from itertools import pairwise

import pytest

from tests.simulation.known_bugs.table import plant
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.scenarios.steady_load import SteadyLoad, runs_that_reach


@pytest.mark.parametrize("power_loss", [False, True])
def test_a_follower_rejoins_under_steady_load(power_loss: bool) -> None:
    with Scenario(21) as story:
        leader, follower = story.leader, story.followers[0]
        load = SteadyLoad(story, leader)
        load.run(0.3)
        story.cluster.crash(follower, power_loss=power_loss)
        load.run(0.6)
        before = story.probe(leader).recoveries_started
        lag = story.replica(leader).log.dirty_index - len(story.log(follower))
        assert lag > 100
        story.cluster.start(follower)
        while story.cluster.consensus(follower, story.group) is None:
            load.run(0.02)
        runs = runs_that_reach(story, follower)
        load.run(0.9)

        # In sync while the load goes on: the last rounds came straight from replicate_entries_stm.
        metadata = story.replica(leader).state.followers[follower]
        assert not metadata.needs_recovery
        assert not metadata.is_recovering
        assert story.replica(leader).log.dirty_index - story.replica(follower).log.dirty_index < 20
        recovered_to = next(last for _, last in runs)
        assert len(runs) > 50, "rounds, not only chunks"
        assert recovered_to < runs[-1][0]
        # Nothing twice, nothing out of order, nothing left out.
        assert all(first == former[1] + 1 for former, (first, _) in pairwise(runs))
        assert story.counts["truncations"] == 0
        # One per group: the partition's and raft0's.
        assert story.probe(leader).recoveries_started - before <= 2
        story.converge()
        assert all(write.error is None for write in story.writes)


def test_a_follower_behind_a_short_cut_catches_up_under_load() -> None:
    with Scenario(22) as story:
        leader, follower = story.leader, story.followers[1]
        load = SteadyLoad(story, leader)
        load.run(0.2)
        runs = runs_that_reach(story, follower)
        story.world.network.cut_both(leader, follower)
        load.run(0.6)
        story.heal()
        load.run(1.5)
        metadata = story.replica(leader).state.followers[follower]
        assert not metadata.needs_recovery
        assert story.counts["truncations"] == 0
        assert all(first == former[1] + 1 for former, (first, _) in pairwise(runs))
        story.converge()


def _a_follower_returns_on_a_long_link() -> None:
    """Counterexample 42: writes come every 4 ms, answers after 50 ms."""
    with Scenario(23) as story:
        leader, follower = story.leader, story.followers[0]
        for link in (story.world.network.link(leader, follower), story.world.network.link(follower, leader)):
            link.base = 0.025
        load = SteadyLoad(story, leader)
        load.run(0.5)
        story.cluster.crash(follower, power_loss=False)
        load.run(0.3)
        story.cluster.start(follower)
        while story.cluster.consensus(follower, story.group) is None:
            load.run(0.02)
        load.run(2.0)
        assert not story.replica(leader).state.followers[follower].needs_recovery
        story.converge()


def test_a_follower_leaves_recovery_though_writes_come_more_often_than_round_trips() -> None:
    _a_follower_returns_on_a_long_link()


def test_a_follower_does_not_leave_recovery_if_an_answer_is_awaited_at_the_end_of_the_log(monkeypatch) -> None:
    plant(monkeypatch, "recovery_ends_with_an_answer_at_the_end_of_the_log")
    with pytest.raises(AssertionError):
        _a_follower_returns_on_a_long_link()
