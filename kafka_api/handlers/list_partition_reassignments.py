"""ListPartitionReassignments (46): replicas do not move, so none is under way; kafka-topics --describe asks."""

from kafka_api.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from kafka_api.request_context import RequestContext


async def handle_list_partition_reassignments(
    _: RequestContext, __: int, ___: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List none, whatever is asked for."""
    return ListPartitionReassignmentsResponse(error_message=None, topics=[])
