"""P1 to P5, P21: what each consistency level waits for, and when consumers see it.

Time is virtual: a stalled pool delays every fsync of a node by exactly as long as the proof says.
"""

from model.ids import ConsistencyLevel, Term
from raft.errors import NotLeaderError
from raft.replicate_item import NewEntry, ReplicateStages
from runtime.workers import Pool
from storage.entry import EntryKind
from tests.simulation.clients.workload import record_batch
from tests.simulation.scenarios.scenario import LEADER, NO_ACK, QUORUM, Scenario, Write

_SOON = 0.050


def _stall_fsyncs(story: Scenario, node_ids: list[int], seconds: float) -> None:
    for node_id in node_ids:
        story.machine(node_id).workers.stall(Pool.FSYNC, seconds)


def _seconds_until_answered(story: Scenario, write: Write, seconds_max: float = 5.0) -> float:
    began = story.world.time
    story.wait(lambda: write.is_answered, seconds_max)
    assert write.error is None
    return story.world.time - began


def _is_visible(story: Scenario, node_id: int, write: Write) -> bool:
    visible = story.replica(node_id).state.visible_index
    return any(entry.content == write.content for entry in story.log(node_id)[:visible])


def prove_three_levels() -> None:
    with Scenario(101) as story:
        leader = story.leader
        _stall_fsyncs(story, [leader, *story.followers], 0.3)
        relaxed = [story.write(leader, LEADER), story.write(leader, NO_ACK)]
        quorum = story.write(leader, QUORUM)
        for write in relaxed:
            assert _seconds_until_answered(story, write) < _SOON
        assert not quorum.is_answered
        assert _seconds_until_answered(story, quorum) > 0.2
        assert {write.level for write in story.writes} == set(ConsistencyLevel)
        story.converge()


def prove_quorum_waits_for_a_flushed_majority() -> None:
    with Scenario(102) as story:
        leader, followers = story.leader, story.followers
        _stall_fsyncs(story, followers, 0.2)
        assert _seconds_until_answered(story, story.write(leader, QUORUM)) >= 0.19
        story.run_for(0.5)
        _stall_fsyncs(story, followers[:1], 0.5)
        assert _seconds_until_answered(story, story.write(leader, QUORUM)) < 0.2, "the other two are a majority"
        story.converge()


def prove_leader_ack_waits_for_the_write_only() -> None:
    with Scenario(103) as story:
        leader = story.leader
        _stall_fsyncs(story, [leader, *story.followers], 1.0)
        relaxed = story.write(leader, LEADER)
        quorum = story.write(leader, QUORUM)
        assert _seconds_until_answered(story, relaxed) < _SOON
        assert story.holds(leader, relaxed)
        story.machine(leader).workers.stall(Pool.APPEND, 0.2)
        late = story.write(leader, LEADER)
        assert _seconds_until_answered(story, late) >= 0.19, "not before it is written"
        assert not quorum.is_answered
        assert _seconds_until_answered(story, quorum) >= 0.7
        story.converge()


def prove_quorum_data_is_visible_with_the_fsync_of_a_majority() -> None:
    with Scenario(104) as story:
        leader, followers = story.leader, story.followers
        _stall_fsyncs(story, followers, 1.0)
        write = story.written(leader, QUORUM)[0]
        story.run_for(0.8)
        assert all(story.holds(node_id, write) for node_id in followers), "written everywhere"
        assert not _is_visible(story, leader, write), "but fsynced on the leader alone"
        story.wait(lambda: _is_visible(story, leader, write), 0.4)
        assert write.is_answered
        story.run_for(0.5)
        _stall_fsyncs(story, followers[:1], 5.0)
        write = story.write(leader, QUORUM)
        story.wait(lambda: _is_visible(story, leader, write), 0.2)
        story.run_for(6.0)
        story.converge()


def prove_relaxed_data_is_visible_once_written_on_a_majority() -> None:
    with Scenario(105) as story:
        leader, followers = story.leader, story.followers
        _stall_fsyncs(story, [leader, *followers], 1.0)
        write = story.write(leader, LEADER)
        story.wait(lambda: write.is_answered and _is_visible(story, leader, write), 0.5)
        behind = story.written(leader, QUORUM)[0]
        hidden = story.write(leader, LEADER)
        story.wait(lambda: hidden.is_answered)
        story.run_for(0.3)
        assert all(story.holds(node_id, hidden) for node_id in followers)
        assert not _is_visible(story, leader, hidden), "a quorum write before it is not committed"
        story.wait(lambda: _is_visible(story, leader, hidden), 1.5)
        assert behind.is_answered
        story.run_for(0.5)
        story.connect([leader], followers)
        alone = story.write(leader, LEADER)
        story.wait(lambda: alone.is_answered, _SOON)
        story.run_for(0.5)
        assert not _is_visible(story, leader, alone), "written by the leader only"
        story.converge()


def _expecting(story: Scenario, node_id: int, term: int | None) -> list[ReplicateStages]:
    """Replicate a batch that expects a term, in the node's own process; the list is filled once it has begun."""
    stages: list[ReplicateStages] = []

    async def replicate() -> None:
        batch = NewEntry(EntryKind.DATA, record_batch([b"expects %r" % term]), 1)
        expected = None if term is None else Term(term)
        stages.append(story.replica(node_id).replicate([batch], ConsistencyLevel.LEADER_ACK, expected_term=expected))

    story.machine(node_id).spawn(replicate())
    story.wait(lambda: bool(stages), _SOON)
    return stages


def prove_one_round_serves_both_levels() -> None:
    with Scenario(121) as story:
        leader = story.leader
        story.connect([leader], story.followers)
        rounds = story.probe(leader).rounds
        bag = [story.write(leader, level) for level in (LEADER, QUORUM, LEADER, QUORUM)]
        story.wait(lambda: bag[0].is_answered and bag[2].is_answered, _SOON)
        assert story.probe(leader).rounds == rounds + 1
        assert not bag[1].is_answered, "no follower has replied"
        assert not bag[3].is_answered
        story.connect(list(story.world.nodes))
        story.wait(lambda: all(write.is_answered for write in bag), 5.0)
        offsets = [write.result.base_offset for write in bag if write.result is not None]
        assert offsets == list(range(offsets[0], offsets[0] + 4))
        term = story.replica(leader).term
        expecting = [_expecting(story, leader, expected) for expected in (term, term - 1, None)]
        story.wait(lambda: all(stages.replicated.done() for [stages] in expecting), 1.0)
        errors = [stages.replicated.exception() for [stages] in expecting]
        assert errors[0] is errors[2] is None
        assert isinstance(errors[1], NotLeaderError), "the rest of its round goes on"
        story.machine(leader).disk.fail_next("write", path_part=".log")
        failed = [story.write(leader, level) for level in (LEADER, QUORUM, LEADER, QUORUM)]
        story.wait(lambda: all(write.is_answered for write in failed), 1.0)
        assert all(write.error is not None for write in failed), "one append, one fate"
