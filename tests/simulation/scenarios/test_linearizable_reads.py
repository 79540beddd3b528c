"""RFC 0003 section 10: a deposed leader that does not know it answers no reader (counterexamples 1 and 35)."""

import asyncio

import pytest

import tests.simulation.world.observer
from model.ids import NodeId, Offset
from raft.consensus import Consensus
from raft.errors import RaftError
from raft.linearizable_barrier import LinearizableBarrier
from raft.messages import AppendEntriesReply, AppendStatus
from raft.options import RaftOptions
from runtime.workers import Pool
from tests.engine import consensus_of
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario


class _Read:
    """The latest offset, asked of one node."""

    def __init__(self, story: Scenario, node_id: int) -> None:
        self.answer: Offset | None = None
        self.error: RaftError | None = None
        story.machine(node_id).spawn(self._ask(story, node_id))

    async def _ask(self, story: Scenario, node_id: int) -> None:
        partition = story.cluster.partition(node_id, story.group)
        assert partition is not None
        story.cluster.observe(node_id)
        committed = len(story.cluster.history.committed_in(story.group))
        barrier = consensus_of(partition).barrier
        begun, end = barrier.arrive(), partition.high_watermark
        try:
            await barrier.wait(begun)
        except RaftError as error:
            self.error = error
        else:
            self.answer = end
            story.cluster.observer.latest(story.group, committed, end)

    @property
    def is_answered(self) -> bool:
        return self.answer is not None or self.error is not None


def _old_replies_arrive_after_the_read() -> None:
    with Scenario(301) as story:
        deposed, [new, other] = story.leader, story.followers
        story.written(deposed, QUORUM)
        story.run_for(0.3)
        # Heartbeats of term 1 are answered, and the answers stay on the way.
        story.world.network.cut(new, deposed)
        story.world.network.cut(other, deposed)
        story.run_for(0.3)
        story.world.network.cut(deposed, new)
        story.world.network.cut(deposed, other)
        story.elect_into_office(new)
        write = story.write(new, QUORUM)
        story.wait(lambda: write.is_answered)
        assert write.result is not None
        assert story.replica(deposed).is_in_office, "it does not know"
        read = _Read(story, deposed)
        story.run_for(0.01)
        assert not read.is_answered
        story.world.network.heal(other, deposed)
        story.wait(lambda: read.is_answered, 3.0)
        assert read.error is not None or read.answer > write.result.base_offset
        story.converge()


def test_a_reply_to_an_earlier_request_confirms_no_reader() -> None:
    _old_replies_arrive_after_the_read()


def test_an_earlier_reply_would_confirm_a_reader_if_any_reply_of_the_term_counted(monkeypatch) -> None:
    monkeypatch.setattr(
        LinearizableBarrier, "_sent", lambda barrier: dict.fromkeys(barrier._context.state.followers, 0)
    )
    with pytest.raises(AssertionError) as objection:
        _old_replies_arrive_after_the_read()
    assert "ReadsAreLinearizable" in str(objection.value.__cause__)


def test_a_deposed_leader_would_answer_a_reader_if_nobody_were_asked(monkeypatch) -> None:
    async def wait(barrier: LinearizableBarrier, begun: asyncio.Future[None]) -> None:
        """Confirm everybody."""

    monkeypatch.setattr(LinearizableBarrier, "wait", wait)
    with pytest.raises(AssertionError) as objection:
        _old_replies_arrive_after_the_read()
    assert "ReadsAreLinearizable" in str(objection.value.__cause__)


def _a_round_that_began_before_the_write_ends_after_it() -> None:
    with Scenario(304) as story:
        deposed, [new, other] = story.leader, story.followers
        story.written(deposed, QUORUM)
        story.run_for(0.3)
        # The first read's round is answered in term 1, and the answers stay on the way.
        story.world.network.cut(new, deposed)
        story.world.network.cut(other, deposed)
        first = _Read(story, deposed)
        story.run_for(0.1)
        assert not first.is_answered
        story.world.network.cut(deposed, new)
        story.world.network.cut(deposed, other)
        story.elect_into_office(new)
        write = story.write(new, QUORUM)
        story.wait(lambda: write.is_answered)
        assert write.result is not None
        assert story.replica(deposed).is_in_office, "it does not know"
        second = _Read(story, deposed)
        story.run_for(0.01)
        story.world.network.heal(other, deposed)
        story.wait(lambda: first.is_answered and second.is_answered, 3.0)
        # The first came before the write: its round confirms it. The second came behind the write.
        assert first.answer == write.result.base_offset
        assert second.error is not None or second.answer > write.result.base_offset
        story.converge()


def test_a_round_confirms_only_readers_that_came_before_it_began() -> None:
    _a_round_that_began_before_the_write_ends_after_it()


def test_a_round_on_its_way_would_confirm_a_reader_that_joins_it_behind_a_write(monkeypatch) -> None:
    arrive = LinearizableBarrier.arrive

    def joined(barrier: LinearizableBarrier) -> asyncio.Future[None]:
        return arrive(barrier) if barrier._current is None else barrier._current.done

    monkeypatch.setattr(LinearizableBarrier, "arrive", joined)
    with pytest.raises(AssertionError) as objection:
        _a_round_that_began_before_the_write_ends_after_it()
    assert "ReadsAreLinearizable" in str(objection.value.__cause__)


def _busy_replicas_have_joined_another_term() -> None:
    with Scenario(303, nodes=5, raft=RaftOptions(append_buffer_requests=1)) as story:
        deposed, [one, two, new, other] = story.leader, story.followers
        story.written(deposed, QUORUM)
        story.run_for(0.3)
        story.connect([deposed], [one, two, new, other])
        story.elect_into_office(new)
        write = story.write(new, QUORUM)
        story.wait(lambda: write.is_answered)
        assert write.result is not None
        for node_id in (one, two):
            story.machine(node_id).workers.stall(Pool.APPEND, 3.0)
        for _ in range(4):
            story.write(new, LEADER)
            story.run_for(0.02)
        assert all(story.replica(node_id)._buffer.is_busy for node_id in (one, two))
        assert story.replica(deposed).is_in_office, "it does not know"
        read = _Read(story, deposed)
        story.run_for(0.01)
        story.connect([deposed, one, two], [new, other])
        story.wait(lambda: read.is_answered, 3.0)
        assert read.error is not None or read.answer > write.result.base_offset, "answered without the write"
        story.converge()


def test_a_busy_replica_of_a_newer_term_confirms_no_reader() -> None:
    _busy_replicas_have_joined_another_term()


def test_a_busy_replica_would_confirm_a_reader_if_busy_named_the_requests_term(monkeypatch) -> None:
    whole_append, whole_heartbeat = Consensus.on_append_entries, Consensus.on_heartbeat

    def on_append_entries(consensus: Consensus, leader: NodeId, request, entries):
        if consensus._buffer.is_busy:
            return AppendEntriesReply(request.term, AppendStatus.BUSY, 0, 0, 0)
        return whole_append(consensus, leader, request, entries)

    def on_heartbeat(consensus: Consensus, leader: NodeId, beat):
        if consensus._buffer.is_busy:
            return AppendEntriesReply(beat.term, AppendStatus.BUSY, 0, 0, 0)
        return whole_heartbeat(consensus, leader, beat)

    monkeypatch.setattr(Consensus, "on_append_entries", on_append_entries)
    monkeypatch.setattr(Consensus, "on_heartbeat", on_heartbeat)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="answered without the write"):
        _busy_replicas_have_joined_another_term()


def test_readers_share_rounds_and_wait_for_a_round_trip_only() -> None:
    with Scenario(302) as story:
        leader = story.leader
        [write] = story.written(leader, QUORUM)
        story.wait(lambda: write.is_answered)
        rounds, begun = story.probe(leader).read_rounds, story.world.time
        reads = [_Read(story, leader) for _ in range(50)]
        story.wait(lambda: all(read.is_answered for read in reads))
        # Far below a heartbeat interval: the round did not wait for the next tick.
        assert story.world.time - begun < 0.05
        assert story.probe(leader).read_rounds - rounds <= 2
        assert all(read.answer == write.result.base_offset + 1 for read in reads)
        story.converge()
