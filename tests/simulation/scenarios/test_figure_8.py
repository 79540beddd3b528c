"""Raft paper, figure 8: a leader does not commit an entry of an older term by counting its replicas."""

import pytest

from model.ids import NodeId
from raft.options import RaftOptions
from raft.rules.agreement import point
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import LEADER, Scenario, Write

# One entry per recovery request, and one request in flight, so that the old entry travels alone.
_OPTIONS = RaftOptions(recovery_chunk_bytes=1, follower_window=1)
_STALL_SECONDS = 2.0


def _up_to_c(story: Scenario) -> Write:
    """Play (a) to (c): the entry of term 2 is fsynced on S1, S2 and S3, which leads term 4 as S1, and S1 knows it."""
    if story.leader != 1:
        story.elect_into_office(1)
    story.wait(lambda: all(story.terms(node_id) == story.terms(1) for node_id in story.world.nodes))
    story.run_for(0.5)
    # (a) S1 leads and replicates an entry to S2 only.
    story.connect({1, 2})
    [old] = story.written(1, LEADER)
    story.wait(lambda: story.holds(2, old) and story.replica(2).log.flushed_index == 2)
    assert story.terms(1) == story.terms(2) == [1, 1]
    # (b) S1 crashes; S5 leads term 2 with the votes of S3 and S4 and accepts another entry at that index.
    story.kill(1)
    story.connect({3, 4, 5})
    story.elect(5)
    story.connect()
    story.wait(lambda: story.terms(5) == [1, 2] and story.replica(5).log.flushed_index == 2)
    # (c) S5 crashes; S1 restarts, leads term 3 and goes on with its replication.
    story.kill(5)
    story.connect({1, 2, 3, 4})
    story.restart(1)
    story.elect(1)
    story.connect({1, 2, 3})
    # The links come back one entry later than the barrier was due: recovery sends both, one by one.
    for node_id in (2, 3):
        story.world.network.reset(1, node_id)
    story.wait(lambda: story.holds(3, old))
    for node_id in (2, 3):
        # The barrier of term 3 is on its way to the disks of S2 and S3 and does not arrive for a while.
        story.machine(node_id).workers.stall(Pool.APPEND, _STALL_SECONDS)
    state = story.replica(1).state

    def fsynced(node_id: NodeId) -> int:
        return min(state.position_of(node_id))

    story.wait(lambda: point(state.commit_quorums, fsynced) == 2, 1.0)
    assert state.barrier_index == 3
    return old


def test_an_old_entry_on_a_majority_is_not_committed_and_may_be_overwritten() -> None:
    with Scenario(8, nodes=5, raft=_OPTIONS) as story:
        old = _up_to_c(story)
        assert [story.terms(node_id)[:2] for node_id in (1, 2, 3)] == [[1, 1]] * 3
        assert story.replica(1).state.term == 3
        story.run_for(0.4)
        assert story.replica(1).state.commit_index < 2
        assert story.replica(1).state.visible_index < 2
        # (d) S1 crashes; S5 leads with the votes of S2, S3 and S4 and overwrites the entry.
        story.kill(1, 2, 3)
        story.heal()
        story.restart(2, 3, 5)
        story.elect_into_office(5)
        story.converge()
        assert story.terms(1)[:3] == [1, 2, story.replica(5).term]
        assert not any(story.holds(node_id, old) for node_id in story.world.nodes)
        assert old.result is not None, "leader_ack was answered: a never-visible suffix is what that level may lose"


def test_once_an_entry_of_the_own_term_is_on_a_majority_nothing_before_it_is_overwritten() -> None:
    with Scenario(8, nodes=5, raft=_OPTIONS) as story:
        old = _up_to_c(story)
        # (e) The barrier reaches S2 and S3 before S1 crashes.
        story.wait(lambda: story.replica(1).is_in_office, 4.0)
        story.kill(1)
        story.heal()
        story.restart(5)
        with pytest.raises(AssertionError, match="node 5 is not elected"):
            story.elect(5, 4.0)
        story.elect_into_office(3)
        story.converge()
        assert all(story.terms(node_id)[:3] == [1, 1, 3] for node_id in story.world.nodes)
        assert all(story.holds(node_id, old) for node_id in story.world.nodes)
