"""What the requests that create and change topics share: deadlines, and the wait for leaders."""

import asyncio

from kafka_api.request_context import RequestContext
from model.ids import TopicId

_TIMEOUT_MAX = 60.0
_LEADER_POLL = 0.01


def request_deadline(timeout_ms: int) -> float:
    """Return the loop time at which a client's own timeout, bounded, is over."""
    return asyncio.get_running_loop().time() + min(max(timeout_ms / 1000, 0.0), _TIMEOUT_MAX)


def seconds_left(deadline: float) -> float:
    """Return the time until `deadline`, at least 0."""
    return max(0.0, deadline - asyncio.get_running_loop().time())


async def until_led(context: RequestContext, topic_id: TopicId, partitions: int, deadline: float) -> None:
    """Wait until this broker can name a leader of so many partitions, or the client's time is up.

    The partitions exist all the same. librdkafka keeps the first metadata it gets of a topic and answers watermark
    queries from it: without a leader they fail until its next periodic refresh.
    """
    loop, node = asyncio.get_running_loop(), context.node
    while loop.time() < deadline:
        topic = node.controller.topics.get_by_id(topic_id)
        if (
            topic is not None
            and len(topic.replicas) >= partitions
            and all(node.leadership.leader_of(topic.group(number)) is not None for number in range(partitions))
        ):
            return
        await asyncio.sleep(_LEADER_POLL)
