"""What all groups of a node share: bytes of batches, of followers' requests and snapshots, and what the disk takes."""

from dataclasses import dataclass

from model.ids import NodeId
from raft.append_buffer_budget import AppendBufferBudget
from raft.disk_reserve import DiskReserve
from raft.node_stalls import NodeStalls
from raft.options import RaftOptions
from raft.recovery_throttle import RecoveryThrottle
from raft.snapshot_budget import SnapshotBudget
from runtime.byte_budget import ReservedBudget
from storage.snapshot_file import STATE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """See the module.

    Attributes:
        batcher_budget: Bytes in all batchers of the node.
        append_buffers: Bytes of requests that wait for the logs of all followers of the node.
        snapshots: Bytes of snapshots that are on their way to all followers of the node.
        throttle: How fast followers that are far behind are brought up to date, from here and here.
        disk: Free space here and at the voters of the groups that are led here.
        stalls: Steps of writes that hang here.
    """

    batcher_budget: ReservedBudget
    append_buffers: AppendBufferBudget
    snapshots: SnapshotBudget
    throttle: RecoveryThrottle
    disk: DiskReserve
    stalls: NodeStalls

    @classmethod
    def of(cls, node_id: NodeId, options: RaftOptions) -> "NodeLimits":
        """Return the limits that the options ask for."""
        return cls(
            ReservedBudget(options.node_batcher_bytes),
            AppendBufferBudget(options.node_append_buffer_bytes),
            SnapshotBudget(STATE_BYTES_MAX),
            RecoveryThrottle(options),
            DiskReserve(node_id, options.disk_reserve_bytes),
            NodeStalls(options.stall_timeout),
        )
