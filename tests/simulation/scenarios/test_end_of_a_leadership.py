"""RFC 0003 section 4: what waits at the end of a leadership is answered at once, as unknown (counterexample 20)."""

import pytest

from raft.errors import LeadershipLostError
from raft.replication_monitor import ReplicationMonitor
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario

_AT_ONCE_SECONDS = 0.1


def _a_leader_that_hears_nobody_steps_down() -> None:
    with Scenario(361) as story:
        old, followers = story.leader, story.followers
        story.run_for(0.3)
        story.connect([old], followers)
        waiting = story.written(old, QUORUM, 3)
        # Behind them on its connection.
        behind = story.write(old, LEADER)
        story.wait(lambda: not story.replica(old).state.is_leader, 5.0)
        story.run_for(_AT_ONCE_SECONDS)
        assert behind.is_answered
        assert all(isinstance(write.error, LeadershipLostError) for write in waiting)
        # Unknown is not lost: here the writes are, and there they are not.
        story.elect_into_office(followers[0])
        story.converge()
        assert not any(story.holds(old, write) for write in waiting)


def test_all_who_wait_are_answered_when_the_leader_steps_down() -> None:
    _a_leader_that_hears_nobody_steps_down()


def test_writers_wait_for_their_time_out_if_nobody_tells_them(monkeypatch) -> None:
    monkeypatch.setattr(ReplicationMonitor, "fail_all", lambda monitor, error: None)
    with pytest.raises(AssertionError):
        _a_leader_that_hears_nobody_steps_down()
