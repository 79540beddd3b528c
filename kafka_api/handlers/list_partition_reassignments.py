"""ListPartitionReassignments (46): the partitions that are being moved, as this broker's table has them."""

from collections.abc import Iterable

from cluster.placement import Move
from cluster.topic_table import Topic
from kafka_api.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from kafka_api.request_context import RequestContext

_Topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
_Partition = ListPartitionReassignmentsResponse.OngoingPartitionReassignment


async def handle_list_partition_reassignments(
    context: RequestContext, _: int, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """List those that are asked for and are being moved; null: all."""
    table = context.node.controller.topics
    found: list[_Topic] = []
    if request.topics is None:
        found = [_moves(topic, topic.placements) for topic in table.all() if topic.placements]
    else:
        for asked in request.topics:
            topic = table.get(asked.name)
            if topic is not None:
                found.append(_moves(topic, asked.partition_indexes))
    return ListPartitionReassignmentsResponse(error_message=None, topics=[each for each in found if each.partitions])


def _moves(topic: Topic, numbers: Iterable[int]) -> _Topic:
    partitions = []
    for number in sorted(set(numbers)):
        move = topic.move_of(number)
        if move is not None:
            partitions.append(_partition(number, move))
    return _Topic(name=topic.name, partitions=partitions)


def _partition(number: int, move: Move) -> _Partition:
    """Return a move in Kafka's terms; of a cancelled one, what goes away again is being removed."""
    adding = [int(replica.node_id) for replica in move.target if replica not in move.origin]
    removing = [int(replica.node_id) for replica in move.replicas if replica not in move.target]
    return _Partition(
        partition_index=number,
        replicas=[int(replica.node_id) for replica in move.replicas],
        adding_replicas=adding,
        removing_replicas=removing,
    )
