"""DescribeTopicPartitions (75, KIP-966): metadata of many partitions, page by page."""

from cluster.topic_table import Topic
from kafka_api.handlers.cluster_view import partition_view
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kafka_api.request_context import RequestContext

_PARTITIONS_MAX = 2000

_Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


async def handle_describe_topic_partitions(
    context: RequestContext, _: int, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe the topics asked for (none named: all) in order of name, from the cursor on."""
    table = context.node.controller.topics
    names = sorted({each.name for each in request.topics}) or [topic.name for topic in table.all()]
    # At least one: a client that asks for none would follow the cursor for ever.
    room = max(1, min(request.response_partition_limit, _PARTITIONS_MAX))
    first = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        if names and names[0] == request.cursor.topic_name:
            first = max(0, request.cursor.partition_index)
    response = DescribeTopicPartitionsResponse(topics=[], next_cursor=None)
    for name in names:
        topic = table.get(name)
        if topic is None:
            response.topics.append(_Topic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, partitions=[]))
            continue
        numbers = range(min(first, len(topic.replicas)), len(topic.replicas))
        if room == 0 or len(numbers) > room:
            response.next_cursor = DescribeTopicPartitionsResponse.Cursor(
                topic_name=name, partition_index=numbers.start + room
            )
        if room > 0:
            response.topics.append(_described(context, topic, numbers[:room]))
        if response.next_cursor is not None:
            return response
        room -= len(numbers)
        first = 0
    return response


def _described(context: RequestContext, topic: Topic, numbers: range) -> _Topic:
    partitions = []
    for number in numbers:
        view = partition_view(context, topic, number)
        partitions.append(
            _Partition(
                error_code=view.error,
                partition_index=number,
                leader_id=view.leader_id,
                leader_epoch=view.leader_epoch,
                replica_nodes=view.replicas,
                isr_nodes=view.in_sync,
                # Never null, whatever the format says: Kafka's own clients would stumble over it.
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=view.offline,
            )
        )
    return _Topic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_told_internal, partitions=partitions)
