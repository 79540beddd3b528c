"""P16, P18, P19: recovery_stm runs when a follower is behind, only then, and hands over without a seam."""

from collections.abc import Sequence
from itertools import cycle, pairwise

from tests.simulation.scenarios.scenario import LEADER, NO_ACK, QUORUM, Scenario

_WRITES_PER_SECOND = 250
_RESTARTS = 12


class _Load:
    """Writes of mixed levels at a steady rate, also while a step of the story is waited for."""

    def __init__(self, story: Scenario, leader: int) -> None:
        self._story = story
        self._leader = leader
        self._levels = cycle([QUORUM, LEADER, LEADER, NO_ACK])

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * _WRITES_PER_SECOND)):
            self._story.write(self._leader, next(self._levels), size=200)
            self._story.run_for(1 / _WRITES_PER_SECOND)


def _runs_that_reach(story: Scenario, follower: int) -> list[tuple[int, int]]:
    """Return (first, last) of every append with entries that reaches a follower from now on, in order."""
    runs: list[tuple[int, int]] = []
    buffer = story.replica(follower)._buffer
    submit = buffer.submit

    def recorded(leader, request, entries: Sequence):
        if entries:
            runs.append((entries[0].index, entries[-1].index))
        return submit(leader, request, entries)

    buffer.submit = recorded
    return runs


def _is_recovering(story: Scenario, leader: int, follower: int) -> bool:
    return story.replica(leader).state.followers[follower].is_recovering


def prove_recovery_runs_only_behind() -> None:
    with Scenario(116) as story:
        leader, follower = story.leader, story.followers[0]
        load = _Load(story, leader)
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
        load = _Load(story, leader)
        load.run(0.3)
        for number in range(_RESTARTS):
            follower = next(followers)
            story.cluster.crash(follower, power_loss=number % 3 == 0)
            load.run(0.15)
            story.cluster.start(follower)
            while story.cluster.consensus(follower, story.group) is None:
                load.run(0.02)
            runs = _runs_that_reach(story, follower)
            load.run(0.6)
            assert runs, "the follower was brought back"
            assert all(first == former[1] + 1 for former, (first, _) in pairwise(runs)), "nothing twice, no gap"
            assert not story.replica(leader).state.followers[follower].needs_recovery, "while the load goes on"
        assert story.counts["truncations"] == 0
        story.converge()


def prove_the_shared_end_of_what_was_sent() -> None:
    with Scenario(119) as story:
        leader, follower = story.leader, story.followers[0]
        load = _Load(story, leader)
        load.run(0.3)
        story.kill(follower)
        load.run(0.4)
        story.cluster.start(follower)
        while story.cluster.consensus(follower, story.group) is None:
            load.run(0.02)
        runs = _runs_that_reach(story, follower)
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
