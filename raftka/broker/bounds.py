"""How full each state table of this broker is, and which states are too large to be saved (RFC 0008, 6)."""

from cluster.groups.group_state import GroupState
from cluster.node import Node
from cluster.state_bounds import Fill
from model.ids import RAFT0
from raft.consensus import Consensus

_CURE_TOO_LARGE = (
    "delete groups or topics that nobody uses; until then the replica's log grows, and a follower that was away for"
    " long stays behind"
)


def node_fills(node: Node) -> list[Fill]:
    """Return a line for each bound, raft0's first; for a state that is too large for a snapshot one more."""
    fills = node.controller.fills()
    fills += _too_large(node.controller.consensus, RAFT0)
    for partition in node.partitions:
        if isinstance(partition.log_state, GroupState):
            fills += partition.log_state.fills()
        fills += _too_large(partition.consensus, f"{partition.topic.name}-{partition.partition}")
    return fills


def _too_large(consensus: Consensus, name: str) -> list[Fill]:
    if consensus.snapshot_refusal is None:
        return []
    bytes_max = consensus.state_bytes_max
    # It is not encoded further than to the first byte above the bound.
    return [Fill(f"the snapshot of {name}", "bytes", bytes_max + 1, bytes_max, 1, _CURE_TOO_LARGE)]
