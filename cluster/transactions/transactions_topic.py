"""`__transaction_state`: which of its partitions keeps a transactional id, and how it is configured."""

from cluster.coordinator_partition import COORDINATOR_TOPIC_CONFIGS, coordinator_partition
from model.ids import ConsistencyLevel

TRANSACTIONS_TOPIC = "__transaction_state"

TRANSACTIONS_TOPIC_CONFIGS = COORDINATOR_TOPIC_CONFIGS

# Everything in it is written so: a decision that a client was told is on the disks of a majority.
TRANSACTIONS_LEVEL = ConsistencyLevel.QUORUM_ACK


def transactions_partition(transactional_id: str, partitions: int) -> int:
    """Return the partition that keeps a transactional id."""
    return coordinator_partition(transactional_id, partitions)
