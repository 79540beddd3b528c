"""`__transaction_state`: which of its partitions keeps a transactional id, and how it is configured."""

from cluster.coordinator_partition import coordinator_partition
from model.ids import ConsistencyLevel

TRANSACTIONS_TOPIC = "__transaction_state"

# As `__consumer_offsets`: the table is in every snapshot, so of the log only the newest segments are kept (RFC 0008).
TRANSACTIONS_TOPIC_CONFIGS = {
    "segment.bytes": str(16 * 1024 * 1024),
    "retention.bytes": str(16 * 1024 * 1024),
    "retention.ms": "-1",
    "max.message.bytes": str(16 * 1024 * 1024),
    "write.caching": "false",
}

# Everything in it is written so: a decision that a client was told is on the disks of a majority.
TRANSACTIONS_LEVEL = ConsistencyLevel.QUORUM_ACK


def transactions_partition(transactional_id: str, partitions: int) -> int:
    """Return the partition that keeps a transactional id."""
    return coordinator_partition(transactional_id, partitions)
