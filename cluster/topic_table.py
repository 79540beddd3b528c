"""The topics of the cluster, as raft0 has them. Written by `controller_tables` only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cluster.commands import (
    AlterPlacements,
    AlterTopicConfigs,
    CreatePartitions,
    CreateTopic,
    FinishPlacement,
    ReplicaRecord,
)
from cluster.errors import (
    InvalidPartitionsError,
    NoReassignmentError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
)
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.placement import Move, Placement
from cluster.telemetry.telemetry_topic import TELEMETRY_TOPIC
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from model.counted import counted
from model.ids import DirectoryId, GroupId, NodeId, Replica, TopicId, number_of, partition_group, topic_of
from model.topic_config import TopicConfig, resolve_topic_config
from raft.group_configuration import Revision

# Coordinators keep what they know there.
_COORDINATOR_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
INTERNAL_TOPICS = _COORDINATOR_TOPICS | {TELEMETRY_TOPIC}


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    Attributes:
        replicas: `replicas[p]` are the replicas of partition p, the preferred one first; while the partition is being
            moved, those before.
        overrides: What is set on the topic, by Kafka's dotted keys.
        config: What is in force: the overrides, and this broker's defaults for the rest.
        older_producers: Producer ids below it were given away before the topic was created: such a producer may have
            written to a topic of that name before.
        placements: The partitions that were ever moved, or are being moved, by number.
    """

    name: str
    topic_id: TopicId
    replicas: tuple[tuple[Replica, ...], ...]
    overrides: Mapping[str, str]
    config: TopicConfig
    older_producers: int = 0
    placements: Mapping[int, Placement] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        """Replicas of each partition."""
        return len(self.replicas[0])

    @property
    def is_internal(self) -> bool:
        """Whether the brokers write it themselves."""
        return self.name in INTERNAL_TOPICS

    @property
    def is_told_internal(self) -> bool:
        """Whether clients are told that it is internal. Telemetry is made to be read by them.

        Spark's Kafka source leaves out topics that are called internal, and says nothing.
        """
        return self.name in _COORDINATOR_TOPICS

    @property
    def is_vital(self) -> bool:
        """Whether the cluster cannot work without writing it: it has the reserves of memory and disk for itself.

        Telemetry has not: what only watches must not take what elections and commits of groups need.
        """
        return self.name in _COORDINATOR_TOPICS

    def partition_name(self, partition: int) -> str:
        """Return what people call a partition: `orders-0`."""
        return f"{self.name}-{partition}"

    def group(self, partition: int) -> GroupId:
        """Return the Raft group of a partition in [0, len(replicas))."""
        assert 0 <= partition < len(self.replicas)
        return partition_group(self.topic_id, partition)

    def created_on(self, partition: int) -> tuple[Replica, ...]:
        """Return the replicas with which a partition was created: where the log of each replica begins."""
        placement = self.placements.get(partition)
        return self.replicas[partition] if placement is None else placement.created_on

    def move_of(self, partition: int) -> Move | None:
        """Return the move of a partition that is under way."""
        placement = self.placements.get(partition)
        return None if placement is None else placement.move

    def holders(self, partition: int) -> tuple[Replica, ...]:
        """Return who holds a partition: its replicas, and those that it moves to."""
        move = self.move_of(partition)
        return self.replicas[partition] if move is None else move.replicas


class TopicTable:
    """Topics by name and id; `revision` grows with each change. `defaults` fill what a topic leaves open."""

    def __init__(self, defaults: TopicConfig) -> None:
        self.defaults = defaults
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[TopicId, Topic] = {}
        self._listeners: list[Callable[[], None]] = []
        self._delete_listeners: list[Callable[[Topic], None]] = []
        self._config_listeners: list[Callable[[Topic], None]] = []
        self.revision = 0

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change; it must not block."""
        self._listeners.append(listener)

    def add_delete_listener(self, listener: Callable[[Topic], None]) -> None:
        """Call `listener` with each topic that a command deletes, before the other listeners; it must not block."""
        self._delete_listeners.append(listener)

    def add_config_listener(self, listener: Callable[[Topic], None]) -> None:
        """Call `listener` with each topic whose configuration has changed, as it is now; it must not block."""
        self._config_listeners.append(listener)

    def get(self, name: str) -> Topic | None:
        """Return a topic by name."""
        return self._by_name.get(name)

    def get_by_id(self, topic_id: TopicId) -> Topic | None:
        """Return a topic by id."""
        return self._by_id.get(topic_id)

    def name_of(self, group: GroupId) -> str:
        """Return what people call a group: `orders-0`, `raft0`; its id if its topic is not in the table."""
        topic = self.get_by_id(topic_of(group))
        return str(group) if topic is None else topic.partition_name(number_of(group))

    @property
    def is_moving(self) -> bool:
        """Whether a partition is being moved."""
        return any(
            placement.move is not None for topic in self._by_name.values() for placement in topic.placements.values()
        )

    def all(self) -> list[Topic]:
        """Return all topics in order of name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def replica_count(self, node_id: NodeId) -> int:
        """Return how many replicas a node holds; those that are on their way count, too."""
        return sum(
            replica.node_id == node_id
            for topic in self._by_name.values()
            for number, replicas in enumerate(topic.replicas)
            for replica in (topic.holders(number) if topic.placements else replicas)
        )

    def apply_create(self, command: CreateTopic, next_producer_id: int = 0) -> None:
        """Add a topic.

        Raises:
            TopicExistsError: The name (or, by a miracle, the id) is taken: two creations raced, the first in the log
                wins on every node alike.
        """
        if command.name in self._by_name or command.topic_id in self._by_id:
            raise TopicExistsError(f"topic {command.name!r} already exists")
        config = resolve_topic_config(command.configs, self.defaults)
        replicas = placements(command.partitions)
        topic_id = TopicId(command.topic_id)
        self._put(Topic(command.name, topic_id, replicas, command.configs, config, next_producer_id))
        self._changed()

    def apply_create_partitions(self, command: CreatePartitions) -> None:
        """Add partitions behind the last one.

        Raises:
            UnknownTopicError: The topic is gone.
            InvalidPartitionsError: It has another number of partitions by now: two growths raced, the first wins.
        """
        topic = self._existing(TopicId(command.topic_id))
        if len(topic.replicas) != command.first:
            raise InvalidPartitionsError(f"topic {topic.name!r} has {counted(len(topic.replicas), 'partition')} by now")
        self._put(replace(topic, replicas=topic.replicas + placements(command.partitions)))
        self._changed()

    def apply_alter_configs(self, command: AlterTopicConfigs) -> None:
        """Replace what is set on a topic.

        Raises:
            UnknownTopicError: The topic is gone.
        """
        topic = self._existing(TopicId(command.topic_id))
        config = resolve_topic_config(command.configs, self.defaults)
        changed = replace(topic, overrides=command.configs, config=config)
        self._put(changed)
        for listener in self._config_listeners:
            listener(changed)
        self._changed()

    def apply_alter_placements(self, command: AlterPlacements, revision: Revision) -> None:
        """Let partitions move, all of the command or none.

        Raises:
            UnknownTopicError, UnknownPartitionError: Something of it is gone.
            NoReassignmentError: There is nothing to cancel.
        """
        # A command may have thousands of moves of one topic: what the topic has is copied once, not for each of them.
        altered: dict[TopicId, dict[int, Placement]] = {}
        for each in command.placements:
            topic = self._existing(TopicId(each.topic_id))
            if each.partition >= len(topic.replicas):
                raise UnknownPartitionError(f"topic {topic.name!r} has no partition {each.partition}")
            now = topic.replicas[each.partition]
            (target,) = (None,) if each.target is None else placements([each.target])
            if topic.topic_id not in altered:
                altered[topic.topic_id] = dict(topic.placements)
            found = altered[topic.topic_id]
            placement = found.get(each.partition) or Placement(created_on=now)
            found[each.partition] = placement.moved_to(now, target, revision)
        for topic_id, found in altered.items():
            self._put(replace(self._existing(topic_id), placements=found))
        self._changed()

    def apply_finish_placement(self, command: FinishPlacement) -> None:
        """Let a partition have the replicas that it was moved to.

        Raises:
            UnknownTopicError: The topic is gone.
            NoReassignmentError: The partition is not being moved by that revision: another target was set meanwhile,
                or it was finished before.
        """
        group = GroupId(command.group)
        topic, number = self._existing(topic_of(group)), number_of(group)
        placement = topic.placements.get(number)
        if placement is None:
            raise NoReassignmentError(f"{topic.partition_name(number)} was never moved")
        finished, now = placement.finish(Revision(*command.revision))
        replicas = (*topic.replicas[:number], now, *topic.replicas[number + 1 :])
        self._put(replace(topic, replicas=replicas, placements={**topic.placements, number: finished}))
        self._changed()

    def apply_delete(self, topic_id: TopicId) -> None:
        """Remove a topic.

        Raises:
            UnknownTopicError: It is gone already.
        """
        topic = self._by_id.pop(topic_id, None)
        if topic is None:
            raise UnknownTopicError(f"no topic with id {topic_id}")
        del self._by_name[topic.name]
        for listener in self._delete_listeners:
            listener(topic)
        self._changed()

    def replace(self, topics: Sequence[Topic]) -> Callable[[], None]:
        """Let these be all topics: a later moment of the same log, whose commands this node has not seen one by one.

        Returns:
            What tells the listeners. Call it once the other tables are of the same moment. Topics that are not among
            these were deleted, and listeners hear of that.
        """
        kept = {topic.topic_id: topic for topic in topics}
        before, deleted = self._by_id, [topic for topic in self.all() if topic.topic_id not in kept]
        self._by_name, self._by_id = {topic.name: topic for topic in topics}, kept
        changed = [
            topic for topic in topics if topic.topic_id in before and topic.config != before[topic.topic_id].config
        ]

        def tell() -> None:
            for topic in deleted:
                for listener in self._delete_listeners:
                    listener(topic)
            for topic in changed:
                for listener in self._config_listeners:
                    listener(topic)
            self._changed()

        return tell

    def set_defaults(self, defaults: TopicConfig) -> None:
        """Let these fill what topics leave open; listeners hear of each topic whose configuration changes by that."""
        if defaults == self.defaults:
            return
        self.defaults = defaults
        changed = []
        for topic in self.all():
            config = resolve_topic_config(topic.overrides, defaults)
            if config != topic.config:
                changed.append(replace(topic, config=config))
                self._put(changed[-1])
        for topic in changed:
            for listener in self._config_listeners:
                listener(topic)
        if changed:
            self._changed()

    def clear(self) -> None:
        """Hold no topic; nobody is told, because none was deleted."""
        self._by_name, self._by_id = {}, {}

    def _existing(self, topic_id: TopicId) -> Topic:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicError(f"no topic with id {topic_id}")
        return topic

    def _put(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def _changed(self) -> None:
        self.revision += 1
        for listener in self._listeners:
            listener()


def placements(partitions: Sequence[Sequence[ReplicaRecord]]) -> tuple[tuple[Replica, ...], ...]:
    """Return the replicas of each partition, as a topic keeps them."""
    return tuple(
        tuple(Replica(NodeId(each.node_id), DirectoryId(each.directory_id)) for each in partition)
        for partition in partitions
    )
