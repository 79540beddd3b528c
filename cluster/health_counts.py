"""What a broker counts of the health of partitions: of those that it leads itself, and as raft0's leader of all.

Nothing is added up twice over brokers: each counts what it leads in office, and one broker alone counts the cluster. A
deposed leader that does not know it counts for up to 1.5 s beside its successor (RFC 0012).
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from cluster.controller import Controller
from cluster.leadership import Leadership
from cluster.partition import Partition
from cluster.partition_manager import PartitionManager
from model.ids import GroupId, Index, NodeId

# The newest entries of a partition have waited so long for a majority: nobody can write to it.
STALL_SECONDS = 10.0


class LedCounts(NamedTuple):
    """Partitions that this broker leads in office, and how many of them are in trouble.

    Attributes:
        partitions_led: All of them.
        under_replicated: With fewer replicas in sync than it has; see `Replication`.
        under_min_isr: With fewer in sync than min.insync.replicas, or than it has if those are fewer.
        stalled: See `HealthCounts.is_stalled`; those that this broker led last are among them.
    """

    partitions_led: int
    under_replicated: int
    under_min_isr: int
    stalled: int


class ClusterCounts(NamedTuple):
    """The cluster as raft0's leader in office sees it.

    Attributes:
        brokers: Those that are registered, unless their directory is retired: these cannot answer.
        alive: Those of them to which this broker has a working link, and itself.
        offline_partitions: Partitions without a leader in office that is alive, as far as this broker knows.
    """

    brokers: int
    alive: int
    offline_partitions: int


class Replication(NamedTuple):
    """Of one partition that is led here.

    Attributes:
        in_sync: How many replicas are in sync, the leader included.
        is_under_replicated: A replica is not in sync. Those that a move adds do not count (as in Kafka), nor do those
            that it drops once all of its target are in sync.
        is_under_min_isr: So few are in sync that acks=all is refused.
    """

    in_sync: int
    is_under_replicated: bool
    is_under_min_isr: bool


class _Waiting(NamedTuple):
    """The last entry of a log when it was looked at, and since when it waits (loop time)."""

    last_index: Index
    since: float


class HealthCounts:
    """Counts when it is asked, which takes a step of the loop; whoever asks may ask at any pace.

    A partition counts as stalled no earlier than the second look at it, and no later than STALL_SECONDS and the time
    between two looks.
    """

    def __init__(
        self,
        controller: Controller,
        partitions: PartitionManager,
        leadership: Leadership,
        is_alive: Callable[[NodeId], bool],
        node_id: NodeId,
    ) -> None:
        self._controller = controller
        self._partitions = partitions
        self._leadership = leadership
        self._is_alive = is_alive
        self._node_id = node_id
        self._waiting: dict[GroupId, _Waiting] = {}

    def led(self) -> LedCounts:
        """Count what this broker leads in office."""
        now = asyncio.get_running_loop().time()
        led = under_replicated = under_min_isr = stalled = 0
        for partition in self._partitions:
            stalled += self.is_stalled(partition, now)
            if not self.counts_as_led(partition):
                continue
            led += 1
            replication = self.replication_of(partition)
            under_replicated += replication.is_under_replicated
            under_min_isr += replication.is_under_min_isr
        self.forget_deleted()
        return LedCounts(led, under_replicated, under_min_isr, stalled)

    @staticmethod
    def counts_as_led(partition: Partition) -> bool:
        """Whether this broker leads a partition in office: one that is only elected serves nobody yet."""
        return partition.is_in_office

    @staticmethod
    def replication_of(partition: Partition) -> Replication:
        """Compare the replicas in sync of a partition that is led here with those that it has and must have."""
        # A topic cannot ask for more replicas than it has.
        topic, number = partition.topic, partition.partition
        replicas = len(topic.replicas[number])
        in_sync, wanted = len(partition.gauges.in_sync), partition.config.min_insync_replicas
        move = topic.move_of(number)
        if move is None:
            is_under_replicated = in_sync < replicas
        else:
            known = frozenset(partition.gauges.in_sync)
            is_under_replicated = not any(
                known.issuperset(replica.node_id for replica in each) for each in (move.origin, move.target)
            )
        return Replication(in_sync, is_under_replicated, in_sync < min(wanted, replicas))

    def is_stalled(self, partition: Partition, now: float) -> bool:
        """Whether an entry of the partition's newest leader, this broker, was not committed for STALL_SECONDS.

        A leader that has lost its majority steps down after 1.5 s. Its partition stays stalled here until its entries
        are committed or truncated, or another broker leads: otherwise nobody would count it.
        """
        group, indexes = partition.group, partition.gauges.indexes
        if indexes.dirty <= indexes.commit or not self._is_newest_leader(partition):
            self._waiting.pop(group, None)
            return False
        waiting = self._waiting.get(group)
        # An entry that was truncated waits no more, and one that is committed has moved on.
        if waiting is None or not indexes.commit < waiting.last_index <= indexes.dirty:
            waiting = self._waiting[group] = _Waiting(indexes.dirty, now)
        return now - waiting.since >= STALL_SECONDS

    def forget_deleted(self) -> None:
        """Forget what waited in partitions that are no longer here."""
        for group in [group for group in self._waiting if self._partitions.get(group) is None]:
            del self._waiting[group]

    def _is_newest_leader(self, partition: Partition) -> bool:
        """Whether nobody else is known to have been in office since this broker was."""
        if partition.is_in_office:
            return True
        return self._leadership.newest_leader(partition.group) == self._node_id

    def cluster(self) -> ClusterCounts | None:
        """Count the cluster; None unless this broker leads raft0 in office.

        Any other broker may be cut off, and would call offline what it only does not hear of.
        """
        if not self.speaks_for_the_cluster():
            return None
        table = self._controller.members
        retired = {member.node_id for member in table.admitted() if table.is_retired(member)}
        members = [member for member in table.all() if member.node_id not in retired]
        alive = sum(self._is_alive(NodeId(member.node_id)) for member in members)
        offline = sum(
            not self.is_led(topic.group(number))
            for topic in self._controller.topics.all()
            for number in range(len(topic.replicas))
        )
        return ClusterCounts(len(members), alive, offline)

    def speaks_for_the_cluster(self) -> bool:
        """Whether this broker leads raft0 in office, and its tables are current."""
        return self._controller.is_in_office

    def is_led(self, group: GroupId) -> bool:
        """Whether a partition has a leader that is alive: the last one that was heard of may be lost."""
        leader = self._leadership.leader_of(group)
        return leader is not None and self._is_alive(leader.node_id)
