"""Where every replica of a partition stands: each node reports its own, any broker gathers them."""

import asyncio
from collections.abc import Callable

import msgspec

from cluster.partition import Partition
from cluster.partition_manager import PartitionManager
from cluster.replica_gauges import ReplicaGauges
from cluster.topic_table import Topic
from model.ids import GroupId, Index, NodeId
from rpc.errors import RpcError
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method
from storage.errors import StorageError

_GATHER_TIMEOUT = 1.0


class StatusRequest(msgspec.Struct, frozen=True, array_like=True):
    """Asks for the receiver's replica of one partition, by its group's name on links."""

    group: str


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """An index, and the offset of the last record at or below it (-1: none, or it cannot be read)."""

    log_index: int
    offset: int


class CompactionStatus(msgspec.Struct, frozen=True, array_like=True):
    """Log compaction of one replica.

    Attributes:
        cleaned: Up to where no record is superseded by another one up to there (RFC 0022, section 4).
        dirty_bytes: Of the segments behind that.
        held_bytes: Of tombstones and markers that are old enough to go, and stay because of another member.
    """

    cleaned: Mark
    dirty_bytes: int
    held_bytes: int


class ReplicaStatus(msgspec.Struct, frozen=True, array_like=True):
    """One replica; `role` is a letter as in the log lines, `-` where there is no such replica.

    `refilling`: damage took entries that it had; it gets them from the others and does not vote without them.
    `compaction`: None where the topic is not compacted, or the broker's version has no compaction.
    """

    node_id: int
    role: str
    term: int
    leader: int
    dirty: Mark
    flushed: Mark
    commit: Mark
    visible: Mark
    in_sync: list[int]
    refilling: bool = False
    compaction: CompactionStatus | None = None


PARTITION_STATUS = Method(21, "partition_status", StatusRequest, ReplicaStatus)

_NOWHERE = Mark(0, -1)


class PartitionStatusReader:
    """Answers for this node's replicas and gathers those of others.

    Args:
        links: To the others.
        partitions: Of this node.
        self_node: This node.
        held_bytes: As of `CompactionStatus`, of a replica here.
    """

    def __init__(
        self,
        links: Links,
        partitions: PartitionManager,
        self_node: NodeId,
        held_bytes: Callable[[GroupId], int] = lambda _: 0,
    ) -> None:
        self._links = links
        self._held_bytes = held_bytes
        self._partitions = partitions
        self._self_node = self_node
        links.register_async(PARTITION_STATUS, self._answer)

    async def gather(self, topic: Topic, number: int) -> list[ReplicaStatus]:
        """Return the status of every replica that answers within a second, in ascending order of node id."""
        group = topic.group(number)
        nodes = sorted(replica.node_id for replica in topic.holders(number))
        found = await asyncio.gather(*(self._of(node, group) for node in nodes))
        return [status for status in found if status is not None]

    async def _of(self, node: NodeId, group: GroupId) -> ReplicaStatus | None:
        try:
            if node == self._self_node:
                return await self._local(self._partitions.get(group))
            request = StatusRequest(self._partitions.link_names.name_of(group))
            return await self._links.send(node, PARTITION_STATUS, request, timeout=_GATHER_TIMEOUT)
        except (RpcError, StorageError):
            return None

    async def _answer(self, _: Peer, request: StatusRequest, __: memoryview) -> ReplicaStatus:
        try:
            return await self._local(self._partitions.named(request.group))
        except StorageError as error:
            # A log that is being truncated or closed: nothing is wrong with the link.
            raise RpcError(f"{request.group}: {error}") from error

    async def _local(self, partition: Partition | None) -> ReplicaStatus:
        if partition is None:
            return ReplicaStatus(self._self_node, "-", 0, -1, _NOWHERE, _NOWHERE, _NOWHERE, _NOWHERE, [])
        status = await replica_status(partition, self._self_node)
        if partition.compaction_policy is None:
            return status
        cleaned = await _mark(partition.gauges, partition.compaction.clean_index)
        held = self._held_bytes(partition.group)
        compaction = CompactionStatus(cleaned, partition.compaction.dirty_bytes, held)
        return msgspec.structs.replace(status, compaction=compaction)


async def replica_status(partition: Partition, node_id: NodeId) -> ReplicaStatus:
    """Return where this node's replica stands."""
    gauges = partition.gauges
    # Taken at one instant: locating the offsets may have to wait.
    indexes, in_sync = gauges.indexes, [int(node) for node in gauges.in_sync]
    leader = -1 if partition.leader_id is None else partition.leader_id
    role, term = gauges.role.value, partition.leader_epoch
    dirty, flushed, commit, visible = [await _mark(gauges, index) for index in indexes]
    return ReplicaStatus(node_id, role, term, leader, dirty, flushed, commit, visible, in_sync, gauges.is_refilling)


async def _mark(gauges: ReplicaGauges, index: Index) -> Mark:
    try:
        position = await gauges.position(index)
    except StorageError:
        # The replica deals with the damage, and opens its log again; an onlooker shall see how.
        return Mark(index, -1)
    return Mark(position.log_index, position.offset)
