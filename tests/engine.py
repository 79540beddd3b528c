"""The Raft replica behind a partition, which the broker's own modules reach through `Partition` only."""

from cluster.partition import Partition
from raft.consensus import Consensus


def consensus_of(partition: Partition) -> Consensus:
    """Return the replica: tests look into it, or let it step down."""
    return partition._consensus
