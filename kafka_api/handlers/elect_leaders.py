"""ElectLeaders (43): the preferred replica, the first of a partition's list, is to lead.

An unclean election, of a replica that may lack acknowledged records, does not exist here: without a majority there is
no leader, and with one there is no need.
"""

import asyncio
from collections.abc import Iterator
from enum import IntEnum
from itertools import islice

from cluster.errors import LeadershipNotMovedError
from cluster.leadership import Leader
from cluster.topic_table import Topic
from kafka_api.error_mapping import error_code
from kafka_api.handlers.topic_admin import request_deadline
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ElectLeadersRequest, ElectLeadersResponse
from kafka_api.request_context import RequestContext
from model.ids import NodeId

_Topic = ElectLeadersResponse.ReplicaElectionResult
_Result = ElectLeadersResponse.PartitionResult

# Elections under way at a time: writes to their partitions wait meanwhile.
_AT_A_TIME = 32


class _ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


async def handle_elect_leaders(context: RequestContext, _: int, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect for each partition asked for; null: for all, and then those are left out that need none."""
    if request.election_type not in set(_ElectionType):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=[])
    deadline = request_deadline(request.timeout_ms)
    asked = _asked(context, request)
    results: dict[str, _Topic] = {}
    while some := list(islice(asked, _AT_A_TIME)):
        elected = await asyncio.gather(
            *(_elect(context, name, number, request.election_type, deadline) for name, number in some)
        )
        for (name, _number), result in zip(some, elected, strict=True):
            if request.topic_partitions is None and result.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                continue
            results.setdefault(name, _Topic(topic=name, partition_result=[])).partition_result.append(result)
    return ElectLeadersResponse(replica_election_results=list(results.values()))


def _asked(context: RequestContext, request: ElectLeadersRequest) -> Iterator[tuple[str, int]]:
    """Yield names and numbers of partitions, each once."""
    if request.topic_partitions is None:
        for topic in context.node.controller.topics.all():
            yield from ((topic.name, number) for number in range(len(topic.replicas)))
    else:
        named = ((each.topic, number) for each in request.topic_partitions for number in each.partitions)
        yield from dict.fromkeys(named)


async def _elect(context: RequestContext, name: str, number: int, election_type: int, deadline: float) -> _Result:
    topic = context.node.controller.topics.get(name)
    if topic is None or not 0 <= number < len(topic.replicas):
        return _Result(partition_id=number, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=None)
    leader = context.node.leadership.leader_of(topic.group(number))
    if election_type == _ElectionType.UNCLEAN:
        return _unclean(context, number, leader)
    preferred = topic.replicas[number][0].node_id
    refusal = _why_not(context, leader, preferred)
    if refusal is not None:
        code, message = refusal
        return _Result(partition_id=number, error_code=code, error_message=message)
    return await _move(context, topic, number, preferred, deadline)


def _unclean(context: RequestContext, number: int, leader: Leader | None) -> _Result:
    if leader is not None and context.node.is_alive(leader.node_id):
        return _Result(
            partition_id=number, error_code=ErrorCode.ELECTION_NOT_NEEDED, error_message="the partition has a leader"
        )
    return _Result(
        partition_id=number,
        error_code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        error_message="a leader needs the votes of a majority of the replicas",
    )


def _why_not(context: RequestContext, leader: Leader | None, preferred: NodeId) -> tuple[ErrorCode, str] | None:
    if leader is None or not context.node.is_alive(leader.node_id):
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "nobody leads, who could hand over"
    if leader.node_id == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED, "the preferred replica leads already"
    # Writes would wait until it holds the whole log.
    if preferred not in leader.in_sync or not context.node.is_alive(preferred):
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"the preferred replica, on node {preferred}, is not in sync"
    return None


async def _move(context: RequestContext, topic: Topic, number: int, preferred: NodeId, deadline: float) -> _Result:
    if asyncio.get_running_loop().time() >= deadline:
        return _Result(
            partition_id=number, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message="not begun before the time-out"
        )
    try:
        await context.node.moves.move(topic.group(number), preferred, deadline)
    except LeadershipNotMovedError as error:
        return _Result(partition_id=number, error_code=error_code(error), error_message=str(error))
    return _Result(partition_id=number, error_message=None)
