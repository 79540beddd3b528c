"""What all groups of a node share: memory of producers' batches, and room on the disk."""

from dataclasses import dataclass

from model.ids import NodeId
from raft.disk_reserve import DiskReserve
from raft.options import RaftOptions
from runtime.byte_budget import ReservedBudget


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """See the module.

    Attributes:
        batcher_budget: Bytes in all batchers of the node.
        disk: Free space here and at the voters of the groups that are led here.
    """

    batcher_budget: ReservedBudget
    disk: DiskReserve

    @classmethod
    def of(cls, node_id: NodeId, options: RaftOptions) -> "NodeLimits":
        """Return the limits that the options ask for."""
        return cls(ReservedBudget(options.node_batcher_bytes), DiskReserve(node_id, options.disk_reserve_bytes))
