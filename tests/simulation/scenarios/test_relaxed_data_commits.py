"""RFC 0003 section 5: a partition written at acks=1 only commits all the same (counterexample 7)."""

import pytest

from raft.replica_flusher import ReplicaFlusher
from tests.simulation.scenarios.scenario import LEADER, Scenario


def _relaxed_data_commits() -> None:
    with Scenario(181) as story:
        leader = story.leader
        story.run_for(0.5)
        writes = story.written(leader, LEADER, 5)
        end = story.replica(leader).log.dirty_index
        # 100 ms until the flush, and the heartbeat that tells the leader of it.
        story.wait(lambda: story.replica(leader).state.commit_index >= end, 0.5)
        assert all(write.is_answered for write in writes)
        # The last ones, however many come before them.
        for _ in range(100):
            story.write(leader, LEADER, size=5000)
            story.run_for(0.002)
        end = story.replica(leader).log.dirty_index
        story.wait(lambda: all(story.replica(each).state.commit_index >= end for each in story.world.nodes), 0.7)
        story.converge()


def test_relaxed_data_commits_without_a_later_quorum_write() -> None:
    _relaxed_data_commits()


def test_relaxed_data_does_not_commit_if_replicas_flush_only_for_quorum_writes(monkeypatch) -> None:
    monkeypatch.setattr(ReplicaFlusher, "schedule_flush", lambda flusher: None)
    with pytest.raises(AssertionError):
        _relaxed_data_commits()
