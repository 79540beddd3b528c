"""OffsetForLeaderEpoch (23, KIP-320): where an epoch ended, so that a client finds out about truncation."""

from kafka_api.handlers.in_steps import in_steps
from kafka_api.handlers.partition_lookup import find_leader, find_topic
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kafka_api.request_context import RequestContext

_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Partition = OffsetForLeaderEpochResponse.EpochEndOffset


async def handle_offset_for_leader_epoch(
    context: RequestContext, _: int, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer from the leader's epoch table: the largest epoch at or below the one asked, and its end."""
    topics = []
    async for asked in in_steps(request.topics):
        topic = find_topic(context, asked.topic, "", by_id=False)
        results = []
        async for each in in_steps(asked.partitions):
            found = (
                topic
                if isinstance(topic, ErrorCode)
                else find_leader(context, topic, each.partition, each.current_leader_epoch)
            )
            if isinstance(found, ErrorCode):
                results.append(_Partition(error_code=found, partition=each.partition))
                continue
            epoch, end = found.epoch_end(each.leader_epoch)
            results.append(_Partition(partition=each.partition, leader_epoch=epoch, end_offset=end))
        topics.append(_Topic(topic=asked.topic, partitions=results))
    return OffsetForLeaderEpochResponse(topics=topics)
