"""The brokers of the cluster, as raft0 has them. Written by `controller_tables` only."""

from collections.abc import Sequence

from cluster.commands import BrokerRecord
from model.ids import NodeId


class MembersTable:
    """Registered brokers by node id."""

    def __init__(self) -> None:
        self._brokers: dict[NodeId, BrokerRecord] = {}

    def apply_register(self, broker: BrokerRecord) -> None:
        """Take a registration; a later one of the same node replaces it."""
        self._brokers[NodeId(broker.node_id)] = broker

    def replace(self, brokers: Sequence[BrokerRecord]) -> None:
        """Let these be all registrations."""
        self._brokers = {NodeId(broker.node_id): broker for broker in brokers}

    def get(self, node_id: NodeId) -> BrokerRecord | None:
        """Return a broker, None if it never registered."""
        return self._brokers.get(node_id)

    def all(self) -> list[BrokerRecord]:
        """Return all brokers in ascending order of node id."""
        return [self._brokers[node_id] for node_id in sorted(self._brokers)]
