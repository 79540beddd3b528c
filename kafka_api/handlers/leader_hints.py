"""Who leads instead: CurrentLeader and NodeEndpoints of the answers that say "not here" (KIP-951).

A client with such a hint goes there at once, without asking for metadata first.
"""

from cluster.commands import BrokerRecord
from cluster.leadership import Leader
from cluster.topic_table import Topic
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.request_context import RequestContext
from model.ids import NodeId

_ANSWERED_WITH_A_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class LeaderHints:
    """The hints of one response."""

    def __init__(self, context: RequestContext) -> None:
        self._node = context.node
        self._named: dict[NodeId, BrokerRecord] = {}

    def leader_for(self, error: int, topic: Topic | ErrorCode, number: int) -> Leader | None:
        """Return the leader to name beside `error`: another broker that is known, alive and in office."""
        if error not in _ANSWERED_WITH_A_LEADER or isinstance(topic, ErrorCode):
            return None
        leader = self._node.leadership.leader_of(topic.group(number))
        if leader is None or leader.node_id == self._node.options.node_id or not self._node.is_alive(leader.node_id):
            return None
        broker = self._node.controller.members.get(leader.node_id)
        if broker is None:
            return None
        self._named[leader.node_id] = broker
        return leader

    def brokers(self) -> list[BrokerRecord]:
        """Return the brokers that were named, once each."""
        return list(self._named.values())
