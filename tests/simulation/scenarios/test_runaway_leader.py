"""RFC 0003 section 9: how far a leader runs ahead of its majority at acks=1 (counterexample 11, rows P12 and P13)."""

import pytest

from raft.errors import LeadershipLostError
from raft.options import RaftOptions
from raft.replicate_batcher import ReplicateBatcher
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import LEADER, NO_ACK, Scenario, Write

_BOUND = 256 * 1024
_ROUND = 64 * 1024
_BATCH = 10_000
_OPTIONS = RaftOptions(unreplicated_bytes=_BOUND, batcher_bytes=_ROUND)


def _offer(story: Scenario, leader: int, seconds: float, rate: int = 500) -> list[Write]:
    """Offer relaxed batches at a steady rate, whether or not they are taken."""
    writes = []
    for number in range(int(seconds * rate)):
        writes.append(story.write(leader, LEADER if number % 4 else NO_ACK, size=_BATCH))
        story.run_for(1 / rate)
    return writes


def _bytes_ahead(story: Scenario, leader: int, follower: int) -> int:
    """Return the bytes between the end of the leader's log and what the follower has written."""
    entries = len(story.log(leader)) - len(story.log(follower))
    return entries * _BATCH


def _one_follower_dead_and_one_stalled() -> None:
    with Scenario(191, raft=_OPTIONS) as story:
        leader, [stalled, dead] = story.leader, story.followers
        story.run_for(0.5)
        story.kill(dead)
        story.machine(stalled).workers.stall(Pool.APPEND, 3.0)
        writes = _offer(story, leader, 2.0)
        ahead = _bytes_ahead(story, leader, stalled)
        assert ahead <= _BOUND + _ROUND, f"{ahead} bytes ahead"
        assert ahead > _BOUND - _ROUND, "up to the bound producers are not held"
        assert story.replica(leader).is_in_office, "heartbeats go on"
        assert sum(write.is_answered for write in writes) < len(writes) / 5
        assert story.probe(leader).producers_held > 0
        story.wait(lambda: all(write.is_answered for write in writes), 20.0)
        assert all(write.result is not None for write in writes), "held, not refused"
        story.wait(lambda: story.replica(leader).state.unreplicated.total == 0, 1.0)
        offsets = [write.result.base_offset for write in writes if write.result is not None]
        assert offsets == sorted(offsets), "nobody overtakes while producers are held"
        story.converge()


def test_row_p13_a_leader_runs_ahead_of_its_majority_by_no_more_than_the_bound() -> None:
    _one_follower_dead_and_one_stalled()


def _never_held(batcher: ReplicateBatcher) -> bool:
    return False


def _held_by_windows(batcher: ReplicateBatcher) -> bool:
    """The rule that counterexample 11 breaks: a majority of the windows is full."""
    context = batcher._context
    full = sum(each.in_flight >= context.options.follower_window for each in context.state.followers.values())
    return full > len(context.state.followers) // 2


@pytest.mark.parametrize("rule", [_never_held, _held_by_windows])
def test_row_p13_fails_without_the_bound_in_bytes(monkeypatch, rule) -> None:
    monkeypatch.setattr(ReplicateBatcher, "_is_held", rule)
    with pytest.raises(AssertionError):
        _one_follower_dead_and_one_stalled()


def test_row_p12_one_stalled_follower_of_two_holds_nobody() -> None:
    with Scenario(192, raft=_OPTIONS) as story:
        leader, stalled = story.leader, story.followers[0]
        story.run_for(0.5)
        story.machine(stalled).workers.stall(Pool.APPEND, 3.0)
        writes = _offer(story, leader, 1.0)
        story.wait(lambda: all(write.is_answered for write in writes), 0.2)
        assert story.probe(leader).producers_held == 0
        story.converge()


def _slow_links_slow_the_producer() -> None:
    with Scenario(193, raft=_OPTIONS) as story:
        leader = story.leader
        story.run_for(0.5)
        for follower in story.followers:
            story.world.network.link(leader, follower).bandwidth = 100 * 1024
        writes = _offer(story, leader, 4.0, rate=400)
        answered = sum(write.is_answered for write in writes) * _BATCH
        # What fits into the bound is taken at once; from then on as much as the links carry.
        assert answered <= _BOUND + 2 * _ROUND + 2 * 4.0 * 100 * 1024
        assert story.replica(leader).is_in_office
        assert all(write.error is None for write in writes)
        for follower in story.followers:
            story.world.network.link(leader, follower).bandwidth = None
        story.wait(lambda: all(write.is_answered for write in writes), 30.0)
        story.converge()


def test_row_p12_throttled_followers_slow_the_producer_down() -> None:
    _slow_links_slow_the_producer()


def test_row_p12_fails_without_the_bound(monkeypatch) -> None:
    monkeypatch.setattr(ReplicateBatcher, "_is_held", _never_held)
    with pytest.raises(AssertionError):
        _slow_links_slow_the_producer()


def test_held_producers_are_told_when_the_leadership_ends() -> None:
    with Scenario(194, raft=_OPTIONS) as story:
        old, followers = story.leader, story.followers
        story.run_for(0.5)
        story.connect([old], followers)
        writes = _offer(story, old, 0.5)
        held = [write for write in writes if not write.is_answered]
        assert held
        story.wait(lambda: all(write.is_answered for write in writes), 3.0)
        assert all(isinstance(write.error, LeadershipLostError) for write in held)
        assert not any(story.holds(old, write) for write in held)
        story.elect_into_office(followers[0])
        lost = [write for write in writes if write.result is not None]
        assert len(lost) * _BATCH <= _BOUND + _ROUND
        story.converge()
        assert story.probe(old).records_truncated == len(lost), "what went with the old leader is counted"
