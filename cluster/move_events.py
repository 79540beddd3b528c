"""Events about moves of partitions: begun, cancelled, finished (RFC 0016).

A broker that holds the partition, or did before, records what its table says. What it applies while it starts is old,
and no event.
"""

import logging
from collections.abc import Callable

from cluster.events import EventKind, Events
from cluster.placement import Move
from cluster.topic_table import TopicTable
from model.ids import GroupId, NodeId, Replica


class MoveEvents:
    """Compares the table with what it was.

    Args:
        topics: The table.
        events: Of this node.
        self_node: This node.
        is_current: Whether the table is as new as the registration of this process.
    """

    def __init__(self, topics: TopicTable, events: Events, self_node: NodeId, is_current: Callable[[], bool]) -> None:
        self._topics = topics
        self._events = events
        self._self_node = self_node
        self._is_current = is_current
        self._before: dict[GroupId, Move] = {}
        topics.add_listener(self._look)

    def _look(self) -> None:
        before, self._before = self._before, {}
        now: dict[GroupId, tuple[str, tuple[Replica, ...]]] = {}
        for topic in self._topics.all():
            for number in topic.placements:
                group = topic.group(number)
                now[group] = topic.partition_name(number), topic.replicas[number]
                move = topic.move_of(number)
                if move is not None:
                    self._before[group] = move
        if not self._is_current():
            return
        for group, move in self._before.items():
            if move != before.get(group):
                self._tell_begun(now[group][0], move)
        for group, move in before.items():
            # Of a topic that was deleted, nothing is told.
            if group not in self._before and group in now:
                name, replicas = now[group]
                what = "is back on" if move.is_cancelled else "was moved to"
                self._tell(EventKind.MOVE_FINISHED, f"{what} {_nodes(replicas)}", name, move)

    def _tell_begun(self, name: str, move: Move) -> None:
        if move.is_cancelled:
            self._tell(
                EventKind.MOVE_CANCELLED, f"goes back to {_nodes(move.origin)}: its move is cancelled", name, move
            )
        else:
            text = f"moves from {_nodes(move.origin)} to {_nodes(move.target)}"
            self._tell(EventKind.MOVE_BEGUN, text, name, move)

    def _tell(self, kind: EventKind, text: str, name: str, move: Move) -> None:
        if any(replica.node_id == self._self_node for replica in move.replicas):
            self._events.record(logging.INFO, kind, text, partition=name)


def _nodes(replicas: tuple[Replica, ...]) -> str:
    return "broker " + ",".join(str(replica.node_id) for replica in replicas)
