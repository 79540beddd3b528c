"""Brokers, leaders and in-sync sets as this broker knows them: shared by the APIs that describe the cluster."""

from typing import NamedTuple

from cluster.broker_waits import waits_for_force
from cluster.commands import BrokerRecord
from cluster.topic_table import Topic
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.request_context import RequestContext
from model.ids import NodeId


class PartitionView(NamedTuple):
    """One partition in Kafka's terms.

    While nobody is in office `leader_id` is -1, and `leader_epoch` that of the last leader heard of, or -1.
    """

    error: ErrorCode
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


def alive_brokers(context: RequestContext) -> list[BrokerRecord]:
    """Return the registered brokers whose link works, this one included, in order of node id.

    All of them while this broker knows no leader of raft0: then it may be the one that is cut off, and a client that
    were told of no other broker would stay with it.
    """
    node = context.node
    if node.controller.leader_id is None:
        return list(node.controller.members.all())
    return [broker for broker in node.controller.members.all() if node.is_alive(NodeId(broker.node_id))]


def controller_id(context: RequestContext) -> int:
    """Return the broker that admin requests are best sent to: raft0's leader, or -1. Any broker forwards them."""
    leader = context.node.controller.leader_id
    return -1 if leader is None else leader


def partition_view(context: RequestContext, topic: Topic, number: int) -> PartitionView:
    """Return what is known of a partition in [0, partitions of the topic)."""
    node = context.node
    # A partition that is being moved is told with all that hold it on the way.
    replicas = [int(replica.node_id) for replica in topic.holders(number)]
    offline = [replica for replica in replicas if not node.is_alive(NodeId(replica))]
    leader = node.leadership.leader_of(topic.group(number))
    # The last leader that was heard of may be dead, and with a single replica there will be no other.
    lost = waits_for_force(topic, number, node.controller.members.retired)
    if leader is None or leader.node_id in offline or lost:
        # Clients that are told no epoch forget the one they knew, and go back to a leader that was deposed.
        epoch = node.leadership.newest_term(topic.group(number))
        return PartitionView(ErrorCode.LEADER_NOT_AVAILABLE, -1, epoch, replicas, [], offline)
    # The leader may not have told yet that a voter has left.
    in_sync = [int(member) for member in leader.in_sync if int(member) in replicas]
    return PartitionView(ErrorCode.NONE, leader.node_id, leader.term, replicas, in_sync, offline)
