"""Events about brokers: joined, retired, removed, in another state (RFC 0016); and since when each is as it is.

Every broker records what its table says. What it applies while it starts is old, and no event.
"""

import asyncio
import logging
from collections.abc import Callable

from cluster.events import EventKind, Events
from cluster.members_table import BrokerState, Member, MembersTable
from cluster.topic_table import TopicTable
from model.ids import NodeId

_STATE_WORDS = {
    BrokerState.ACTIVE: "is active",
    BrokerState.DRAINING: "is being drained: it leads nothing and gets nothing",
    BrokerState.DECOMMISSIONING: "is being decommissioned: its replicas move away",
}


class BrokerWatch:
    """Compares the table with what it was.

    Args:
        members: The table.
        topics: Says how many replicas a broker that is to be empty still holds.
        events: Of this node.
        is_current: Whether the tables are as new as the registration of this process.
    """

    def __init__(
        self, members: MembersTable, topics: TopicTable, events: Events, is_current: Callable[[], bool]
    ) -> None:
        self._members = members
        self._topics = topics
        self._events = events
        self._is_current = is_current
        self._before: dict[NodeId, Member] = {}
        self._retired = members.retired
        self._since: dict[NodeId, float] = {}
        # Of brokers that are to be empty: replicas there, and since when it is this number (loop time).
        self._left: dict[NodeId, tuple[int, float]] = {}
        self._look(tells=False)
        members.add_listener(self._look)
        topics.add_listener(self._count)

    def seconds_in_state(self, node_id: NodeId) -> float:
        """Return for how long, as this process knows, a broker is in its state."""
        now = asyncio.get_running_loop().time()
        return now - self._since.get(node_id, now)

    def seconds_without_progress(self, node_id: NodeId) -> float:
        """Return for how long no replica has left a broker that is to be empty; 0 of any other."""
        now = asyncio.get_running_loop().time()
        return now - self._left.get(node_id, (0, now))[1]

    def _look(self, *, tells: bool = True) -> None:
        members = {member.node_id: member for member in self._members.admitted()}
        before, self._before = self._before, members
        retired, self._retired = self._retired, self._members.retired
        now = asyncio.get_running_loop().time()
        self._since = {
            node: self._since[node] if node in before and before[node].state is member.state else now
            for node, member in members.items()
        }
        self._count()
        if not tells or not self._is_current():
            return
        for node, member in members.items():
            old = before.get(node)
            if old is None or old.replica != member.replica:
                again = "" if old is None else " again, with another data directory"
                self._tell(EventKind.BROKER_JOINED, f"broker {node} has joined{again}")
            elif old.state is not member.state:
                self._tell(EventKind.BROKER_STATE, f"broker {node} {_STATE_WORDS[member.state]}")
            if self._members.is_retired(member) and member.replica.directory_id not in retired:
                text = (
                    f"data directory {member.replica.directory_id} of broker {node} is retired: it never counts again"
                )
                self._tell(EventKind.BROKER_RETIRED, text)
        for node in before.keys() - members.keys():
            self._tell(EventKind.BROKER_REMOVED, f"broker {node} is in the cluster no longer")

    def _count(self) -> None:
        now = asyncio.get_running_loop().time()
        left = {}
        for node, member in self._before.items():
            if member.state is BrokerState.DECOMMISSIONING:
                count = self._topics.replica_count(node)
                known = self._left.get(node)
                left[node] = known if known is not None and known[0] == count else (count, now)
        self._left = left

    def _tell(self, kind: EventKind, text: str) -> None:
        self._events.record(logging.INFO, kind, text)
