"""What is measured of partitions: sums of those that are led here, values by topic, and each replica by itself."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cluster.members_table import BrokerState
from cluster.node import Node
from cluster.partition import Partition
from model.bounded_names import BoundedNames
from raftka.broker.metric_rows import SAMPLES_PER_SLICE, Row, Rows
from raftka.broker.stall_watch import StallWatch

# What a broker may be; one whose directory is retired counts as nothing else.
BROKER_STATES = (*(state.value for state in BrokerState), "retired")


def _leads(partition: Partition) -> float:
    return float(partition.is_in_office)


_REPLICA_VALUES: dict[str, Callable[[Partition], float]] = {
    "raftka_partition_leader": _leads,
    "raftka_partition_term": lambda partition: partition.leader_epoch,
    "raftka_partition_start_offset": lambda partition: partition.start_offset,
    "raftka_partition_end_offset": lambda partition: partition.end_offset,
    "raftka_partition_unflushed_bytes": lambda partition: partition.gauges.unflushed_bytes,
    "raftka_partition_unreplicated_bytes": lambda partition: partition.gauges.unreplicated_bytes,
    "raftka_partition_size_bytes": lambda partition: partition.size_bytes,
    "raftka_partition_learners": lambda partition: partition.gauges.learner_count,
    "raftka_partition_joint": lambda partition: float(partition.gauges.is_joint),
    "raftka_partition_dirty_index": lambda partition: partition.gauges.indexes.dirty,
    "raftka_partition_flushed_index": lambda partition: partition.gauges.indexes.flushed,
    "raftka_partition_commit_index": lambda partition: partition.gauges.indexes.commit,
    "raftka_partition_visible_index": lambda partition: partition.gauges.indexes.visible,
}


class ReplicaCollector:
    """`/metrics/partitions`: every replica here by itself."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def rows(self, now: float) -> Rows:
        """Yield one family after the other; each value is of the moment at which it is read."""
        partitions = list(self._node.partitions)
        for name, value in _REPLICA_VALUES.items():
            for partition in partitions:
                yield Row(name, value(partition), (partition.topic.name, str(partition.partition)))


@dataclass(slots=True)
class _TopicSums:
    size_bytes: int = 0
    isr_size_min: int | None = None
    min_isr_setting: int = 0


class PartitionCollector:
    """What is led here in office, in sums and by topic.

    `names` are the topics that have series of their own.
    """

    def __init__(self, node: Node, names: BoundedNames, stalls: StallWatch) -> None:
        self._node = node
        self._names = names
        self._stalls = stalls

    def rows(self, now: float) -> Rows:
        """Look at all partitions first, then yield what they came to."""
        topics: dict[str, _TopicSums] = {}
        led = under_replicated = under_min_isr = 0
        for number, partition in enumerate(list(self._node.partitions), start=1):
            sums = topics.setdefault(self._names.label(partition.topic.name), _TopicSums())
            sums.size_bytes += partition.size_bytes
            if self._node.health.counts_as_led(partition):
                replication = self._node.health.replication_of(partition)
                in_sync = replication.in_sync
                led += 1
                under_replicated += replication.is_under_replicated
                under_min_isr += replication.is_under_min_isr
                sums.isr_size_min = in_sync if sums.isr_size_min is None else min(sums.isr_size_min, in_sync)
                sums.min_isr_setting = max(sums.min_isr_setting, partition.config.min_insync_replicas)
            if number % SAMPLES_PER_SLICE == 0:
                yield None
        yield Row("raftka_partitions_led", led)
        yield Row("raftka_under_replicated_partitions", under_replicated)
        yield Row("raftka_under_min_isr_partitions", under_min_isr)
        yield Row("raftka_stalled_partitions", len(self._stalls.groups()))
        yield from _topic_rows(topics)


def _topic_rows(topics: dict[str, _TopicSums]) -> Iterator[Row]:
    for name, sums in topics.items():
        yield Row("raftka_topic_size_bytes", sums.size_bytes, (name,))
    led = {name: sums for name, sums in topics.items() if sums.isr_size_min is not None}
    for name, sums in led.items():
        yield Row("raftka_isr_size_min", sums.isr_size_min or 0, (name,))
    for name, sums in led.items():
        yield Row("raftka_min_isr_setting", sums.min_isr_setting, (name,))


class ClusterCollector:
    """What only raft0's leader in office says: a broker that is cut off would call everything offline."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def rows(self, now: float) -> Rows:
        """Yield the controller's row; where this broker leads raft0 also those of the cluster."""
        node = self._node
        is_active = node.health.speaks_for_the_cluster()
        yield Row("raftka_controller_active", float(is_active))
        for link in node.links.outgoing():
            yield Row("raftka_peer_up", float(link.is_up), (str(link.node_id),))
        if not is_active:
            return
        members = node.controller.members
        admitted = members.admitted()
        brokers = [member for member in admitted if not members.is_retired(member)]
        alive = sum(node.is_alive(broker.node_id) for broker in brokers)
        states = Counter("retired" if members.is_retired(member) else member.state.value for member in admitted)
        offline = looked = 0
        for topic in node.controller.topics.all():
            for number in range(len(topic.replicas)):
                offline += not node.health.is_led(topic.group(number))
                looked += 1
                if looked % SAMPLES_PER_SLICE == 0:
                    yield None
        if node.health.speaks_for_the_cluster():
            yield Row("raftka_cluster_brokers", len(brokers))
            yield Row("raftka_cluster_brokers_alive", alive)
            for state in BROKER_STATES:
                yield Row("raftka_cluster_brokers_by_state", states[state], (state,))
            yield Row("raftka_cluster_offline_partitions", offline)
