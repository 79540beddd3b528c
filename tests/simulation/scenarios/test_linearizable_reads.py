"""RFC 0003 section 10: a deposed leader that does not know it answers no reader (counterexample 1)."""

import asyncio

import pytest

from model.ids import Offset
from raft.errors import RaftError
from raft.linearizable_barrier import LinearizableBarrier
from tests.simulation.scenarios.scenario import QUORUM, Scenario


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
        barrier = partition.consensus.barrier
        begun, end = barrier.arrive(), partition.high_watermark
        try:
            await barrier.wait(begun)
        except RaftError as error:
            self.error = error
        else:
            self.answer = end
            story.cluster.observer.latest(node_id, story.group, committed, end)

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


def test_it_would_if_any_reply_of_the_term_counted(monkeypatch) -> None:
    monkeypatch.setattr(
        LinearizableBarrier, "_sent", lambda barrier: dict.fromkeys(barrier._context.state.followers, 0)
    )
    with pytest.raises(AssertionError) as objection:
        _old_replies_arrive_after_the_read()
    assert "ReadsAreLinearizable" in str(objection.value.__cause__)


def test_it_would_if_nobody_were_asked(monkeypatch) -> None:
    async def wait(barrier: LinearizableBarrier, begun: asyncio.Future[None]) -> None:
        """Confirm everybody."""

    monkeypatch.setattr(LinearizableBarrier, "wait", wait)
    with pytest.raises(AssertionError) as objection:
        _old_replies_arrive_after_the_read()
    assert "ReadsAreLinearizable" in str(objection.value.__cause__)


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
