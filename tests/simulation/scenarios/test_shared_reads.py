"""RFC 0003 section 10: what readers share, and what a deposed leader tells whom the topic asks for no confirmation."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_api.handlers.list_offsets import handle_list_offsets
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ListOffsetsRequest
from kafka_api.request_context import RequestContext
from model.topic_config import TopicConfig
from raft.linearizable_barrier import LinearizableBarrier
from tests.simulation.invariants.invariant import InvariantBrokenError
from tests.simulation.scenarios.scenario import QUORUM, Scenario
from tests.simulation.world.cluster import TOPIC

LATEST, EARLIEST = -1, -2
_VERSION = 7


class _Ask:
    """ListOffsets for the one partition, handled by one node; `told` is its result once there is one."""

    def __init__(self, story: Scenario, node_id: int, timestamp: int = LATEST, *, isolation: int = 0) -> None:
        self.told: Any = None
        self._story = story
        self._timestamp = timestamp
        self._isolation = isolation
        self.committed = len(story.cluster.history.committed_in(story.group))
        story.machine(node_id).spawn(self._ask(node_id))

    async def _ask(self, node_id: int) -> None:
        story = self._story
        asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=self._timestamp)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[asked])
        request = ListOffsetsRequest(replica_id=-1, isolation_level=self._isolation, topics=[topic])
        # The handler needs nothing of a connection but the node.
        context = cast(RequestContext, SimpleNamespace(node=story.cluster.nodes[node_id]))
        response = await handle_list_offsets(context, _VERSION, request)
        self.told = response.topics[0].partitions[0]
        if self.told.error_code == 0:
            story.cluster.observe(node_id)
            story.cluster.observer.told_end(story.group, self.told.offset)

    @property
    def is_answered(self) -> bool:
        return self.told is not None

    def judge(self) -> None:
        """Let the observer say whether the answer covers what was committed when it was asked for."""
        if self.told.error_code == 0:
            self._story.cluster.observer.latest(self._story.group, self.committed, self.told.offset)


def _depose(story: Scenario, deposed: int, new: int) -> int:
    """Cut a leader off, let another one acknowledge a write, and return the offset behind that."""
    for node_id in story.followers:
        story.world.network.cut(deposed, node_id)
    story.elect_into_office(new)
    write = story.write(new, QUORUM)
    story.wait(lambda: write.is_answered)
    assert write.result is not None
    assert story.replica(deposed).is_in_office, "it does not know"
    return write.result.base_offset + 1


def _a_reader_comes_while_a_round_is_under_way() -> None:
    """The first reader's round is answered, and the answers stay on the way; then the second reader comes."""
    with Scenario(361) as story:
        deposed, [new, other] = story.leader, story.followers
        story.written(deposed, QUORUM)
        story.run_for(0.3)
        for node_id in (new, other):
            story.world.network.cut(node_id, deposed)
        first = _Ask(story, deposed)
        story.run_for(0.05)
        assert not first.is_answered
        end = _depose(story, deposed, new)
        second = _Ask(story, deposed)
        story.run_for(0.01)
        assert not second.is_answered
        story.world.network.heal(other, deposed)
        story.wait(lambda: first.is_answered and second.is_answered, 3.0)
        first.judge()
        assert first.told.offset == end - 1, "its round was sent after it came, and before the write"
        second.judge()
        assert second.told.error_code != 0
        story.converge()


def test_a_round_that_began_before_a_reader_came_does_not_confirm_him() -> None:
    _a_reader_comes_while_a_round_is_under_way()


def test_a_reader_is_told_too_little_if_a_round_that_began_before_counts_for_him(monkeypatch) -> None:
    whole_arrive = LinearizableBarrier.arrive

    def arrive(barrier: LinearizableBarrier) -> asyncio.Future[None]:
        """Whoever comes while a round is under way shares it, whatever was sent before he came."""
        return whole_arrive(barrier) if barrier._current is None else barrier._current.done

    monkeypatch.setattr(LinearizableBarrier, "arrive", arrive)
    with pytest.raises(InvariantBrokenError, match="ReadsAreLinearizable"):
        _a_reader_comes_while_a_round_is_under_way()


def _a_deposed_leader_is_asked(configs: dict[str, str | None]) -> tuple[list[_Ask], int]:
    """Return what it tells of the latest offset, of both isolation levels, and the offset that it should tell."""
    with Scenario(362, topic_configs=configs) as story:
        deposed, [new, other] = story.leader, story.followers
        story.written(deposed, QUORUM)
        story.run_for(0.3)
        for node_id in (new, other):
            story.world.network.cut(node_id, deposed)
        end = _depose(story, deposed, new)
        earliest = _Ask(story, deposed, EARLIEST)
        asked = [_Ask(story, deposed, isolation=isolation) for isolation in (0, 1)]
        story.run_for(0.0)
        assert earliest.is_answered, "no round is waited for"
        assert earliest.told.offset == 0
        story.wait(lambda: all(each.is_answered for each in asked), 3.0)
        if configs.get("list.offsets.linearizable") != "false":
            for each in asked:
                each.judge()
        story.converge()
        return asked, end


def test_a_deposed_leader_tells_no_latest_offset_by_default() -> None:
    asked, _ = _a_deposed_leader_is_asked({})
    assert all(
        each.told.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE) for each in asked
    )


def test_a_deposed_leader_tells_an_older_end_where_the_topic_asks_for_no_confirmation() -> None:
    asked, end = _a_deposed_leader_is_asked({"list.offsets.linearizable": "false"})
    # `told_end` has judged that it was visible once.
    assert [(each.told.error_code, each.told.offset) for each in asked] == [(0, end - 1)] * 2


def test_a_deposed_leader_would_tell_too_little_if_nobody_were_asked_by_default(monkeypatch) -> None:
    monkeypatch.setattr(
        TopicConfig, "list_offsets_linearizable", property(lambda _: False, lambda _config, _value: None)
    )
    with pytest.raises(InvariantBrokenError, match="ReadsAreLinearizable"):
        _a_deposed_leader_is_asked({})
