"""Which brokers hold a topic whose partitions shall have more, or fewer, replicas. Pure."""

from collections.abc import Mapping, Sequence

from cluster.errors import InvalidReplicationFactorError
from model.ids import NodeId


def spread(
    replica_counts: Mapping[NodeId, int],
    placed: Sequence[Sequence[NodeId]],
    leaders: Sequence[NodeId | None],
    replication_factor: int,
) -> list[list[NodeId]]:
    """Return the nodes of each partition, the preferred leader first; those that stay keep their order.

    A partition with too few replicas gets the nodes with the fewest. One with too many loses those on the nodes with
    the most, of equal ones the last in its order; its leader stays, and without a known one its preferred replica.

    Args:
        replica_counts: Every node that may get replicas, with how many it holds now.
        placed: The nodes of each partition now.
        leaders: Who leads each partition; None: nobody is known to.
        replication_factor: Replicas that each partition shall have.

    Raises:
        InvalidReplicationFactorError: Fewer nodes than replicas, or less than one replica.
    """
    if not 1 <= replication_factor <= len(replica_counts):
        raise InvalidReplicationFactorError(
            f"replication factor {replication_factor}: from 1 to the number of active brokers, {len(replica_counts)}"
        )
    counts = dict(replica_counts)
    result: list[list[NodeId]] = []
    for nodes, leader in zip(placed, leaders, strict=True):
        kept = list(nodes)
        while len(kept) > replication_factor:
            stays = leader if leader in kept else kept[0]
            # A node that may get no replicas any more goes first.
            gone = max(
                (node for node in kept if node != stays),
                key=lambda node: (node not in replica_counts, counts.get(node, 0), kept.index(node)),
            )
            kept.remove(gone)
            counts[gone] = counts.get(gone, 1) - 1
        while len(kept) < replication_factor:
            added = min((node for node in replica_counts if node not in kept), key=lambda node: (counts[node], node))
            kept.append(added)
            counts[added] += 1
        result.append(kept)
    return result
