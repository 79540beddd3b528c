"""Which nodes get the replicas of a new topic. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from cluster.errors import InvalidReplicationFactorError
from model.ids import NodeId


def allocate(
    replica_counts: Mapping[NodeId, int], partitions: int, replication_factor: int, shift: int
) -> list[list[NodeId]]:
    """Return the nodes of each partition, the preferred leader first.

    Nodes with fewer replicas come first; leaders and followers go round, so that a topic's leaders are spread
    evenly and two partitions with the same leader differ in their followers.

    Args:
        replica_counts: Every node that may hold replicas, with how many it holds now.
        partitions: At least 1.
        replication_factor: Replicas of each partition, on different nodes.
        shift: Where the round begins, so that many one-partition topics do not all lead on one node.

    Raises:
        InvalidReplicationFactorError: Fewer nodes than replicas, or less than one replica.
    """
    if not 1 <= replication_factor <= len(replica_counts):
        raise InvalidReplicationFactorError(
            f"replication factor {replication_factor}: from 1 to the number of active brokers, {len(replica_counts)}"
        )
    counts = dict(replica_counts)
    order = sorted(counts)
    order = order[shift % len(order) :] + order[: shift % len(order)]
    leads = dict.fromkeys(order, 0)
    # How often a node follows another one in this topic: when a leader dies, not all that it led may move to one node.
    pairs: Counter[tuple[NodeId, NodeId]] = Counter()
    result: list[list[NodeId]] = []
    for partition in range(partitions):
        turned = order[partition % len(order) :] + order[: partition % len(order)]
        leader = min(turned, key=lambda node: (leads[node], counts[node]))
        followers = _followers(turned, leader, counts, pairs)[: replication_factor - 1]
        pairs.update((leader, node) for node in followers)
        leads[leader] += 1
        for node in (leader, *followers):
            counts[node] += 1
        result.append([leader, *followers])
    return result


def _followers(
    turned: Sequence[NodeId],
    leader: NodeId,
    counts: Mapping[NodeId, int],
    pairs: Mapping[tuple[NodeId, NodeId], int],
) -> list[NodeId]:
    others = [node for node in turned if node != leader]
    return sorted(others, key=lambda node: (counts[node], pairs[leader, node]))
