"""ElectLeaders (43): the preferred replica, the first of a partition's list, is to lead.

An unclean election, of a replica that may lack acknowledged records, does not exist here: without a majority there is
no leader, and with one there is no need.
"""

from collections.abc import Iterator
from enum import IntEnum

from cluster.leadership import Leader
from kafka_api.handlers.topic_admin import request_deadline
from kafka_api.preferred_leaders import elect_preferred, few_at_a_time
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ElectLeadersRequest, ElectLeadersResponse
from kafka_api.request_context import RequestContext

_Topic = ElectLeadersResponse.ReplicaElectionResult
_Result = ElectLeadersResponse.PartitionResult


class _ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


async def handle_elect_leaders(context: RequestContext, _: int, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect for each partition asked for; null: for all, and then those are left out that need none."""
    if request.election_type not in set(_ElectionType):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST, replica_election_results=[])
    deadline = request_deadline(request.timeout_ms)

    async def elect(name: str, number: int) -> _Result:
        return await _elect(context, name, number, request.election_type, deadline)

    results: dict[str, _Topic] = {}
    async for (name, _number), result in few_at_a_time(_asked(context, request), elect):
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
    if election_type == _ElectionType.UNCLEAN and topic is not None and 0 <= number < len(topic.replicas):
        return _unclean(context, number, context.node.leadership.leader_of(topic.group(number)))
    election = await elect_preferred(context.node, name, number, deadline)
    return _Result(partition_id=number, error_code=election.code, error_message=election.message)


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
