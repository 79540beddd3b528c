"""A heartbeat that arrives before an append in flight says nothing about the log (RFC 0003, failure walk-through)."""

import pytest

from runtime.workers import Pool
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario, Write

_SLOW_SECONDS = 1.2


def _settled(story: Scenario) -> tuple[int, int, int]:
    """Return leader, the follower that will be slow, and the other one, all in sync."""
    slow, other = story.followers
    [first] = story.written(story.leader, QUORUM)
    story.run_for(0.5)
    assert first.result is not None
    assert story.replica(slow).state.commit_index == story.replica(story.leader).log.dirty_index
    return story.leader, slow, other


def _overtaken(story: Scenario, leader: int, slow: int, last_matched: int) -> None:
    """Some heartbeats later: the slow follower has heard of more commits than it has entries, and stands still."""
    state = story.replica(slow).state
    assert story.replica(leader).state.commit_index > last_matched
    assert state.matched_index == state.commit_index == state.visible_index == last_matched
    assert state.leader_id == leader
    assert story.replica(slow).failure is None


@pytest.mark.parametrize("level", [QUORUM, LEADER])
def test_an_append_on_a_slow_disk(level) -> None:
    with Scenario(11) as story:
        leader, slow, _ = _settled(story)
        matched = story.replica(slow).state.matched_index
        recoveries, term = story.probe(leader).recoveries_started, story.replica(leader).term
        story.machine(slow).workers.stall(Pool.APPEND, _SLOW_SECONDS)
        writes = story.written(leader, level, 5)
        story.wait(lambda: story.replica(slow).log.pending_index > matched)
        story.run_for(_SLOW_SECONDS - 0.2)
        _overtaken(story, leader, slow, matched)
        _is_in_sync_without_recovery(story, leader, slow, writes)
        assert story.probe(leader).recoveries_started == recoveries
        assert story.replica(leader).term == term


def test_an_append_in_chunks_on_a_slow_link() -> None:
    with Scenario(12) as story:
        leader, slow, _ = _settled(story)
        matched = story.replica(slow).state.matched_index
        recoveries, term = story.probe(leader).recoveries_started, story.replica(leader).term
        story.world.network.link(leader, slow).bandwidth = 200_000.0
        writes = story.written(leader, QUORUM, 1, size=300_000)
        story.run_for(_SLOW_SECONDS)
        assert not story.holds(slow, writes[0]), "the append is still on the link"
        _overtaken(story, leader, slow, matched)
        # Ten heartbeat intervals without one that passes would have been an election.
        story.run_for(1.5)
        _is_in_sync_without_recovery(story, leader, slow, writes)
        assert story.probe(leader).recoveries_started == recoveries
        assert story.replica(leader).term == term


def _is_in_sync_without_recovery(story: Scenario, leader: int, slow: int, writes: list[Write]) -> None:
    story.wait(lambda: all(story.holds(slow, write) for write in writes), 3.0)
    story.run_for(0.5)
    assert all(write.result is not None for write in writes)
    assert story.counts["truncations"] == 0
    assert not story.replica(leader).state.followers[slow].needs_recovery
    story.converge()
