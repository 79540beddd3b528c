"""Which partitions raft0's leader has to look at when it moves replicas, of all that there are (RFC 0020 section 4).

Those are the partitions that move, and those that must: a replica has to leave, or an internal topic has too few. Which
they are depends on the tables only, never on who is up. So a link that comes or goes leads to a look at these alone. A
table that has changed leads to a look at the topics that are others by now; other brokers lead to a look at all.
"""

from collections import Counter
from typing import NamedTuple

from cluster.members_table import MembersTable
from cluster.placement import Replicas
from cluster.topic_table import Topic, TopicTable
from model.ids import NodeId, Replica, TopicId

INTERNAL_REPLICAS = 3


class Numbered(NamedTuple):
    """A partition."""

    topic: Topic
    number: int


class _Part(NamedTuple):
    """What is known of a topic, as long as it is the same one."""

    topic: Topic
    moving: tuple[int, ...]
    due: tuple[int, ...]
    counts: Counter[NodeId]


class MoveIndex:
    """Follows the tables when `refresh` is called. The caller must not keep what it returns beyond that.

    Attributes:
        moving: The partitions that are being moved, in order of topic and number.
        due: The partitions whose replicas, or those that they move to, must be others, in the same order.
        counts: Replicas of each broker; those that are on their way count, too.
        gone_through: How many partitions it has looked at since it began.
    """

    def __init__(self, topics: TopicTable, members: MembersTable) -> None:
        self._topics = topics
        self._members = members
        self._parts: dict[TopicId, _Part] = {}
        # What the parts were made of.
        self._revision = -1
        self._staying: frozenset[Replica] = frozenset()
        self.moving: list[Numbered] = []
        self.due: list[Numbered] = []
        self.counts: Counter[NodeId] = Counter()
        self.gone_through = 0

    def refresh(self) -> None:
        """Know the tables as they are now."""
        members = self._members
        admitted = [member.replica for member in members.admitted()]
        staying = frozenset(replica for replica in admitted if not members.must_leave(replica))
        if staying != self._staying:
            self._staying = staying
            self._parts.clear()
            self.counts.clear()
        elif self._revision == self._topics.revision:
            return
        self._revision = self._topics.revision
        before, self._parts = self._parts, {}
        for topic in self._topics.all():
            part = before.pop(topic.topic_id, None)
            if part is None or part.topic is not topic:
                if part is not None:
                    self.counts.subtract(part.counts)
                part = self._part_of(topic)
                self.counts.update(part.counts)
            self._parts[topic.topic_id] = part
        for part in before.values():
            self.counts.subtract(part.counts)
        self.moving = [Numbered(part.topic, number) for part in self._parts.values() for number in part.moving]
        self.due = [Numbered(part.topic, number) for part in self._parts.values() for number in part.due]

    def _part_of(self, topic: Topic) -> _Part:
        numbers = range(len(topic.replicas))
        self.gone_through += len(numbers)
        moving = tuple(number for number in sorted(topic.placements) if topic.move_of(number) is not None)
        due = tuple(number for number in numbers if self._is_due(topic, number))
        counts = Counter(replica.node_id for number in numbers for replica in topic.holders(number))
        return _Part(topic, moving, due, counts)

    def _is_due(self, topic: Topic, number: int) -> bool:
        now, move = topic.replicas[number], topic.move_of(number)
        wanted: Replicas = now if move is None else move.target
        if not self._staying.issuperset(wanted):
            return True
        # While it moves to fewer replicas than before, one more may be added.
        return topic.is_internal and len(wanted) < (INTERNAL_REPLICAS if move is None else len(move.origin))
