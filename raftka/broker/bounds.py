"""How full each state table of this broker is, and which states are too large to be saved (RFC 0008, 6)."""

from collections.abc import Iterator

from cluster.coordinator_log_state import CoordinatorLogState
from cluster.node import Node
from cluster.partition import Partition
from cluster.producer_state import ProducerState
from cluster.state_bounds import Fill
from model.ids import RAFT0
from raft.consensus import Consensus

_CURE_TOO_LARGE = (
    "delete groups or topics that nobody uses; until then the replica's log grows, and a follower that was away for"
    " long stays behind"
)


_CURE_BATCHERS = (
    "producers wait until followers have taken what they sent: look for a slow broker or link, or raise"
    " raft.batcher.node.max.bytes"
)
_CURE_APPEND_BUFFERS = (
    "this broker's disk takes less than the leaders send: look for a disk that hangs, or raise"
    " raft.append.buffer.node.max.bytes"
)
_CURE_SNAPSHOTS = "no action is needed: leaders resend refused snapshots"
_CURE_LINK = "the link or the broker takes less than it is sent: what was refused is sent again by recovery"
_CURE_DESCRIPTORS = "raise the limit of open files (ulimit -n, LimitNOFILE=), or segment.bytes"

# Producers of a partition are told from here on: there may be thousands of partitions.
_TOLD_SHARE = 0.9


def node_fills(node: Node) -> list[Fill]:
    """Return a line for each bound, raft0's first; for a state that is too large for a snapshot one more."""
    return [fill for fills in fills_by_part(node) for fill in fills]


def fills_by_part(node: Node) -> Iterator[list[Fill]]:
    """Yield the lines of raft0, of each partition (of most there are none), and of the node."""
    yield node.controller.fills() + _too_large(node.controller.consensus, RAFT0)
    for partition in node.partitions:
        name = f"{partition.topic.name}-{partition.partition}"
        fills: list[Fill] = []
        if isinstance(partition.log_state, CoordinatorLogState):
            fills += partition.log_state.fills()
        elif isinstance(partition.log_state, ProducerState):
            fills += _producers(partition.log_state, name)
        yield fills + _too_large(partition, name)
    yield _memory(node) + _descriptors(node)


def _producers(state: ProducerState, name: str) -> list[Fill]:
    fill = state.fill(name)
    return [fill] if state.evicted or fill.share >= _TOLD_SHARE else []


def _memory(node: Node) -> list[Fill]:
    """Return what is counted in bytes over all groups. The reserve of internal groups is nobody else's."""
    limits = node.groups.limits
    batchers, buffers = limits.batcher_budget, limits.append_buffers
    fills = [
        Fill("batches of producers in all groups", "bytes", batchers.taken, batchers.ordinary, 0, _CURE_BATCHERS),
        Fill(
            *("append requests for the followers here", "bytes", buffers.bytes.taken, buffers.bytes.ordinary),
            *(buffers.refused, _CURE_APPEND_BUFFERS, True),
        ),
        Fill(
            *("snapshots on their way to the followers here", "bytes", limits.snapshots.taken, limits.snapshots.limit),
            *(limits.snapshots.refused, _CURE_SNAPSHOTS, True),
        ),
    ]
    for link in node.links.outgoing():
        name = f"unsent requests to broker {link.node_id}"
        fills.append(Fill(name, "bytes", link.unsent_bytes, link.unsent_max, link.refused_requests, _CURE_LINK, True))
    return fills


def _descriptors(node: Node) -> list[Fill]:
    files = node.groups.open_files.descriptors
    name = "files of segments in use"
    return [Fill(name, "descriptors", files.pinned_count, files.wanted, files.refused, _CURE_DESCRIPTORS)]


def _too_large(replica: Consensus | Partition, name: str) -> list[Fill]:
    if replica.snapshot_refusal is None:
        return []
    bytes_max = replica.state_bytes_max
    # It is not encoded further than to the first byte above the bound.
    return [Fill(f"the snapshot of {name}", "bytes", bytes_max + 1, bytes_max, 1, _CURE_TOO_LARGE)]
