"""AlterPartitionReassignments (45): partitions move to other brokers, or back (KIP-455, RFC 0019 section 6)."""

import asyncio
from collections.abc import Sequence

from cluster.errors import BY_NAME, ClusterError
from cluster.placements import AlterPlacementsRequest, PlacementsReply, RefusedMove, WantedMove
from kafka_api.error_mapping import error_code
from kafka_api.handlers.topic_admin import request_deadline, seconds_left
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from kafka_api.request_context import RequestContext
from model.ids import Index

_Topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
_Partition = AlterPartitionReassignmentsResponse.ReassignablePartitionResponse

# In version 0 a move may always change the number of replicas.
_FIRST_VERSION_WITH_COUNT = 1


async def handle_alter_partition_reassignments(
    context: RequestContext, version: int, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Ask raft0's leader for all moves at once; each partition has its own answer."""
    may_change_count = version < _FIRST_VERSION_WITH_COUNT or request.allow_replication_factor_change
    deadline = request_deadline(request.timeout_ms)
    wanted = [
        WantedMove(topic.name, partition.partition_index, partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    ]
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_count, error_message=None, responses=[]
    )
    asked = AlterPlacementsRequest(wanted, may_change_count, seconds_left(deadline))
    try:
        reply = await context.node.placements.alter(asked)
    except ClusterError as error:
        response.error_code, response.error_message = error_code(error), str(error)
        # Java's client wants an answer for each partition here, too.
        whole = [RefusedMove(each.topic, each.partition, type(error).__name__, str(error)) for each in wanted]
        response.responses = _answers(request, whole)
        return response
    response.responses = _answers(request, reply.refused)
    await _until_known(context, reply, deadline)
    return response


def _answers(request: AlterPartitionReassignmentsRequest, refusals: Sequence[RefusedMove]) -> list[_Topic]:
    refused = {(each.topic, each.partition): each for each in refusals}
    topics: list[_Topic] = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            refusal = refused.get((topic.name, asked.partition_index))
            code, words = ErrorCode.NONE, None
            if refusal is not None:
                kind = BY_NAME.get(refusal.error, ClusterError)
                code, words = error_code(kind(refusal.message)), refusal.message
            partitions.append(_Partition(partition_index=asked.partition_index, error_code=code, error_message=words))
        topics.append(_Topic(name=topic.name, partitions=partitions))
    return topics


async def _until_known(context: RequestContext, reply: PlacementsReply, deadline: float) -> None:
    """Wait until this broker's table has the moves: whoever lists them next finds them."""
    try:
        async with asyncio.timeout_at(deadline):
            await context.node.controller.wait_applied(Index(reply.applied_index))
    except TimeoutError:
        return
