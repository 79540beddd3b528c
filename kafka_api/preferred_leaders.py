"""The preferred replica of a partition, the first of its list, is to lead: judged, and done by its present leader."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import NamedTuple, TypeVar

from cluster.errors import LeadershipNotMovedError
from cluster.leadership import Leader
from cluster.node import Node
from cluster.topic_table import Topic
from kafka_api.error_mapping import error_code
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import NodeId

T = TypeVar("T")
_AT_A_TIME = 32


class Election(NamedTuple):
    """What has become of a partition, or in a dry run would.

    Attributes:
        code: NONE: the preferred replica was elected; ELECTION_NOT_NEEDED: it led already. Else it does not lead.
        message: Why not, for people; None: the code says all.
        preferred: Its node; None: there is no such partition.
        leader_before: Who led, as this broker knew; None: nobody.
    """

    code: ErrorCode
    message: str | None
    preferred: NodeId | None = None
    leader_before: NodeId | None = None


async def few_at_a_time(
    partitions: Iterable[tuple[str, int]], elect: Callable[[str, int], Awaitable[T]]
) -> AsyncIterator[tuple[tuple[str, int], T]]:
    """Yield each partition and what `elect` returns for it.

    Only some elections are under way at a time: writes to their partitions wait meanwhile.
    """
    left = iter(partitions)
    while some := list(islice(left, _AT_A_TIME)):
        for each in zip(some, await asyncio.gather(*(elect(name, number) for name, number in some)), strict=True):
            yield each


async def elect_preferred(node: Node, name: str, number: int, deadline: float, *, is_dry_run: bool = False) -> Election:
    """Let the preferred replica lead before `deadline` (loop time); in a dry run ask only whether it could now."""
    topic = node.controller.topics.get(name)
    if topic is None or not 0 <= number < len(topic.replicas):
        return Election(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    leader = node.leadership.leader_of(topic.group(number))
    preferred = topic.replicas[number][0].node_id
    refusal: tuple[ErrorCode, str | None] | None = _why_not(node, leader, preferred)
    if refusal is None:
        refusal = await _move(node, topic, number, preferred, deadline, is_dry_run=is_dry_run)
    return Election(*refusal, preferred, None if leader is None else leader.node_id)


def _why_not(node: Node, leader: Leader | None, preferred: NodeId) -> tuple[ErrorCode, str] | None:
    if leader is None or not node.is_alive(leader.node_id):
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "nobody leads, who could hand over"
    if leader.node_id == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED, "the preferred replica leads already"
    # Writes would wait until it holds the whole log.
    if preferred not in leader.in_sync or not node.is_alive(preferred):
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"the preferred replica, on node {preferred}, is not in sync"
    return None


async def _move(
    node: Node, topic: Topic, number: int, preferred: NodeId, deadline: float, *, is_dry_run: bool
) -> tuple[ErrorCode, str | None]:
    if asyncio.get_running_loop().time() >= deadline:
        return ErrorCode.REQUEST_TIMED_OUT, "not begun before the time-out"
    ask = node.moves.check if is_dry_run else node.moves.move
    try:
        await ask(topic.group(number), preferred, deadline)
    except LeadershipNotMovedError as error:
        return error_code(error), str(error)
    return ErrorCode.NONE, None
