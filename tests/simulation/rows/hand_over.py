"""P16, P18, P19: recovery_stm runs when a follower is behind, only then, and hands over without a seam."""

from itertools import cycle, pairwise

from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.scenarios.steady_load import SteadyLoad, runs_that_reach

_RESTARTS = 12


def _is_recovering(story: Scenario, leader: int, follower: int) -> bool:
    return story.replica(leader).state.followers[follower].is_recovering


def prove_recovery_runs_only_behind() -> None:
    with Scenario(116) as story:
        leader, follower = story.leader, story.followers[0]
        load = SteadyLoad(story, leader)
        load.run(0.5)
        started = story.probe(leader).recoveries_started
        load.run(2.0)
        assert story.probe(leader).recoveries_started == started, "nobody is behind, at any level"
        story.kill(follower)
        load.run(0.3)
        story.cluster.start(follower)
        while story.cluster.consensus(follower, story.group) is None:
            load.run(0.02)
        back = story.world.time
        # It may have begun and ended between two looks.
        while story.probe(leader).recoveries_started == started:
            load.run(0.02)
            assert story.world.time - back < 0.35, "recovery has not begun"
        load.run(1.0)
        assert not _is_recovering(story, leader, follower)
        story.converge()


def prove_the_hand_over_storm() -> None:
    with Scenario(118) as story:
        leader, followers = story.leader, cycle(story.followers)
        load = SteadyLoad(story, leader)
        load.run(0.3)
        for number in range(_RESTARTS):
            follower = next(followers)
            story.cluster.crash(follower, power_loss=number % 3 == 0)
            load.run(0.15)
            story.cluster.start(follower)
            while story.cluster.consensus(follower, story.group) is None:
                load.run(0.02)
            runs = runs_that_reach(story, follower)
            load.run(0.6)
            assert runs, "the follower was brought back"
            assert all(first == former[1] + 1 for former, (first, _) in pairwise(runs)), "nothing twice, no gap"
            assert not story.replica(leader).state.followers[follower].needs_recovery, "while the load goes on"
        assert story.counts["truncations"] == 0
        story.converge()


def prove_the_shared_end_of_what_was_sent() -> None:
    with Scenario(119) as story:
        leader, follower = story.leader, story.followers[0]
        load = SteadyLoad(story, leader)
        load.run(0.3)
        story.kill(follower)
        load.run(0.4)
        story.cluster.start(follower)
        while story.cluster.consensus(follower, story.group) is None:
            load.run(0.02)
        runs = runs_that_reach(story, follower)
        load.run(1.0)
        metadata = story.replica(leader).state.followers[follower]
        begun = story.probe(leader).recoveries_started
        assert not metadata.needs_recovery
        # Chunks end where rounds begin: the first round after the last chunk fits without a probe or a resend.
        assert len(runs) > 50, "rounds, not only chunks"
        assert all(first == former[1] + 1 for former, (first, _) in pairwise(runs))
        load.run(1.0)
        assert story.probe(leader).recoveries_started == begun, "and from then on it stays with the rounds"
        assert metadata.expected_log_end_index == story.replica(leader).log.last_index
        story.converge()
