"""OffsetDelete (47): positions of a group in topics that none of its members subscribes to."""

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import OffsetDeleteRequest, OffsetDeleteResponse
from kafka_api.request_context import RequestContext


async def handle_offset_delete(
    context: RequestContext, version: int, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    """Delete what may be deleted; the rest is refused by itself."""
    topics = context.node.controller.topics
    unknown, places = set(), []
    for asked in request.topics:
        topic = topics.get(asked.name)
        for each in asked.partitions:
            place = (asked.name, each.partition_index)
            if topic is None or not 0 <= each.partition_index < len(topic.replicas):
                unknown.add(place)
            else:
                places.append(place)
    errors = await context.groups.delete_offsets(request.group_id, places)
    if isinstance(errors, ErrorCode):
        return OffsetDeleteResponse(error_code=errors, topics=[])
    errors |= dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponse.OffsetDeleteResponseTopic(
                name=asked.name,
                partitions=[
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(
                        partition_index=each.partition_index, error_code=errors[asked.name, each.partition_index]
                    )
                    for each in asked.partitions
                ],
            )
            for asked in request.topics
        ]
    )
