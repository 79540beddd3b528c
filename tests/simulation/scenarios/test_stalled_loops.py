"""RFC 0003 section 7: a loop that stood still says nothing of the disk, however long its steps seem to have taken."""

import pytest

from raft.group_heartbeats import GroupHeartbeats
from raft.leader_watch import LeaderWatch
from raft.options import RaftOptions
from raft.write_probe import WriteProbe
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import QUORUM, Scenario

_STALL_TIMEOUT = 1.0
_LOOP_STANDS_STILL = 1.2


def _a_leaders_loop_stands_still_during_an_append() -> None:
    """For longer than a step may take, and for less than an election timeout."""
    with Scenario(318, raft=RaftOptions(stall_timeout=_STALL_TIMEOUT)) as story:
        leader, term = story.leader, story.replica(story.leader).term
        stalls = story.cluster.nodes[leader].groups.limits.stalls
        story.run_for(0.3)
        story.machine(leader).workers.stall(Pool.APPEND, 0.05)
        write = story.write(leader, QUORUM)
        story.run_for(0.01)
        # The append ends in its thread meanwhile.
        story.machine(leader).stall_loop()
        story.run_for(_LOOP_STANDS_STILL)
        story.machine(leader).resume()
        story.run_for(0.1)
        assert stalls.doubt is None, "its disk was quick"
        story.wait(lambda: write.is_answered, 1.0)
        assert write.result is not None
        story.run_for(_STALL_TIMEOUT)
        assert (story.leader, story.replica(leader).term) == (leader, term)
        assert story.replica(leader).is_in_office


def test_a_leader_whose_loop_stood_still_stays_and_does_not_doubt_its_disk() -> None:
    _a_leaders_loop_stands_still_during_an_append()


def test_a_late_tick_is_followed_by_the_next_one_at_once(monkeypatch) -> None:
    """A group at rest is beaten at every third tick: on a loop that is late each time, a lost tick costs its leader."""
    whole = GroupHeartbeats.is_due
    ticks: list[GroupHeartbeats] = []
    with Scenario(319) as story:
        leader = story.machine(story.leader)
        heartbeats = story.replica(story.leader).heartbeats
        story.run_for(3.0)
        monkeypatch.setattr(GroupHeartbeats, "is_due", lambda beats: (ticks.append(beats), whole(beats))[1])
        leader.stall_loop()
        story.run_for(0.4)
        ticks.clear()
        leader.resume()
        story.run_for(0.001)
        assert ticks.count(heartbeats) == 2


def test_a_leader_would_leave_if_the_time_of_a_loop_that_stood_still_counted(monkeypatch) -> None:
    monkeypatch.setattr(LeaderWatch, "_stood_still", lambda watch, before: False)
    with pytest.raises(AssertionError):
        _a_leaders_loop_stands_still_during_an_append()


def test_a_disk_would_be_doubted_if_the_time_of_a_loop_that_stood_still_counted(monkeypatch) -> None:
    monkeypatch.setattr(WriteProbe, "_stood_still", lambda probe, looked_at: False)
    with pytest.raises(AssertionError, match="its disk was quick"):
        _a_leaders_loop_stands_still_during_an_append()
