"""R24: the time after which a replica is out of sync, changed while the replicas run."""

from dataclasses import replace

import pytest

from raft.group_heartbeats import GroupHeartbeats
from tests.simulation.scenarios.scenario import QUORUM, Scenario


def _set_lag(story: Scenario, seconds: float) -> None:
    """As the option does it, on every node at once."""
    for number, node in story.cluster.nodes.items():
        options = replace(node.options, raft=replace(node.options.raft, replica_lag_max=seconds))
        story.machine(number).loop.post(lambda node=node, options=options: node.change_options(options))
    story.run_for(0.0)


def _in_sync(story: Scenario) -> int:
    """As the leader counts, by its own clock."""
    context = story.replica(story.leader)._context
    oldest = story.machine(story.leader).loop.time() - context.options.replica_lag_max
    return 1 + sum(follower.caught_up_at >= oldest for follower in context.state.followers.values())


def _seconds_to_leave(story: Scenario, follower: int) -> tuple[float, float]:
    """Let a follower stand still; return after how long it is out of sync: since it answered last, and since then.

    Then it returns.
    """
    state = story.replica(story.leader)._context.state
    story.machine(follower).pause()
    began = story.world.time
    story.wait(lambda: _in_sync(story) == 2)
    answered = min(each.caught_up_at for each in state.followers.values())
    silent, since = story.machine(story.leader).loop.time() - answered, story.world.time - began
    story.machine(follower).resume()
    story.wait(lambda: _in_sync(story) == 3)
    return silent, since


def _smallest_set(story: Scenario, seconds: float) -> int:
    """Return the fewest replicas that are in sync at any instant of the next seconds."""
    found = [_in_sync(story)]
    story.world.scheduler.observers.append(lambda: found.append(_in_sync(story)))
    story.run_for(seconds)
    story.world.scheduler.observers.pop()
    return min(found)


def test_row_r24_a_changed_time_decides_when_a_replica_is_out_of_sync() -> None:
    with Scenario(24) as story:
        leader, follower = story.leader, story.followers[0]
        story.written(leader, QUORUM, 3)
        # The bounds of row R24: the time itself, and what a heartbeat and a look may add.
        for seconds, at_most in ((0.3, 0.6), (1.5, 1.9), (0.3, 0.6)):
            _set_lag(story, seconds)
            story.wait(lambda: _in_sync(story) == 3)
            silent, since = _seconds_to_leave(story, follower)
            assert silent >= seconds
            assert since <= at_most
        story.converge()


def test_row_r24_a_short_time_keeps_replicas_that_answer_in_sync_at_rest_and_under_load() -> None:
    with Scenario(25) as story:
        story.written(story.leader, QUORUM, 3)
        for seconds in (10.0, 0.6, 0.4, 0.3):
            _set_lag(story, seconds)
            story.run_for(2.0)
            assert _smallest_set(story, 5.0) == 3, seconds
            for _ in range(20):
                story.write(story.leader, QUORUM)
                assert _smallest_set(story, 0.1) == 3, seconds
        story.converge()


def test_row_r24_fails_if_groups_at_rest_are_beaten_as_seldom_as_ever(monkeypatch) -> None:
    monkeypatch.setattr(GroupHeartbeats, "on_options", lambda heartbeats: None)
    with pytest.raises(AssertionError):
        test_row_r24_a_short_time_keeps_replicas_that_answer_in_sync_at_rest_and_under_load()
