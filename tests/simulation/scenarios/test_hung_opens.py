"""RFC 0001 section 5: a replica whose open or removal hangs holds up no other replica of its broker."""

from collections.abc import Callable

import pytest

from cluster import group_steps
from cluster.admin_messages import CreateTopicRequest, DeleteTopicRequest
from cluster.errors import ClusterError
from cluster.node import Node
from runtime.workers import Pool
from tests.simulation.scenarios.scenario import Scenario

# As long as a step is waited for, and a little longer.
_SECONDS = 7.0


def _ask(story: Scenario, request: CreateTopicRequest | DeleteTopicRequest) -> None:
    node = story.cluster.nodes[1]
    story.machine(1).spawn(_asked(node, request))


async def _asked(node: Node, request: CreateTopicRequest | DeleteTopicRequest) -> None:
    try:
        if isinstance(request, CreateTopicRequest):
            await node.admin.create_topic(request)
        else:
            await node.admin.delete_topic(request)
    except ClusterError as error:
        raise AssertionError(f"{request} was refused") from error


def _create(story: Scenario, name: str) -> None:
    _ask(story, CreateTopicRequest(name, 1, 3, [], {}, False, 10.0))


def _is_open(story: Scenario, node_id: int, name: str) -> Callable[[], bool]:
    def look() -> bool:
        topic = story.cluster.nodes[node_id].controller.topics.get(name)
        return topic is not None and story.cluster.partition(node_id, topic.group(0)) is not None

    return look


def _an_open_hangs() -> None:
    with Scenario(341) as story:
        story.candidates = None
        hung = story.followers[0]
        workers, backend = story.machine(hung).workers, story.cluster.nodes[hung].backend
        _create(story, "hangs")
        story.wait(lambda: bool(backend._steps.under_way) and workers.hang(Pool.APPEND) > 0)
        story.run_for(1.0)
        assert not _is_open(story, hung, "hangs")()
        _create(story, "other")
        story.wait(_is_open(story, hung, "other"), _SECONDS)
        assert not backend.is_reconciled, "one of them is not there yet"
        _ask(story, DeleteTopicRequest("other", "", 10.0))
        _ask(story, DeleteTopicRequest("hangs", "", 10.0))
        story.wait(lambda: story.cluster.nodes[hung].controller.topics.get("other") is None)
        story.run_for(_SECONDS)
        assert len(list(story.cluster.nodes[hung].groups)) == 2, "raft0 and the topic of the story"
        # It opens a replica of a topic that is gone, and removes it.
        workers.mend()
        story.wait(lambda: backend.is_reconciled and not backend._unremoved, 8.0)
        story.converge()


def test_others_are_opened_and_removed_while_one_open_hangs() -> None:
    _an_open_hangs()


def test_others_are_not_opened_if_each_waits_for_the_ones_before(monkeypatch) -> None:
    monkeypatch.setattr(group_steps, "PATIENCE", 3600.0)
    with pytest.raises(AssertionError):
        _an_open_hangs()
