"""From what a client names to the local leader in office, or the code that says why not."""

from cluster.partition import Partition
from cluster.topic_table import Topic
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.request_context import RequestContext
from model.ids import TopicId


def find_topic(context: RequestContext, name: str, topic_id: str, *, by_id: bool) -> Topic | ErrorCode:
    """Return the topic a request names, by id from the versions on that carry one."""
    topics = context.node.controller.topics
    if by_id:
        return topics.get_by_id(TopicId(topic_id)) or ErrorCode.UNKNOWN_TOPIC_ID
    return topics.get(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def find_changeable(context: RequestContext, topic: Topic, number: int) -> Partition | ErrorCode:
    """Return the leader of a partition that clients may change; what brokers keep would be at their mercy otherwise."""
    return ErrorCode.INVALID_TOPIC_EXCEPTION if topic.is_internal else find_leader(context, topic, number)


def find_leader(context: RequestContext, topic: Topic, number: int, client_epoch: int = -1) -> Partition | ErrorCode:
    """Return the local replica if it leads and may serve.

    Order of the checks as in Kafka: the partition, the client's epoch (-1: it knows none), then leadership.
    """
    if not 0 <= number < len(topic.replicas):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = context.node.partitions.get(topic.group(number))
    if partition is None or partition.failure is not None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if client_epoch >= 0:
        if client_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if client_epoch > partition.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    return partition if partition.is_in_office else ErrorCode.NOT_LEADER_OR_FOLLOWER
