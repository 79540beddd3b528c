"""`__consumer_offsets`: which of its partitions keeps a group, and how it is configured."""

from cluster.coordinator_partition import COORDINATOR_TOPIC_CONFIGS, coordinator_partition
from model.ids import ConsistencyLevel

OFFSETS_TOPIC = "__consumer_offsets"

OFFSETS_TOPIC_CONFIGS = COORDINATOR_TOPIC_CONFIGS

# Everything in it is written so: a commit that was answered is on the disks of a majority.
OFFSETS_LEVEL = ConsistencyLevel.QUORUM_ACK


def offsets_partition(group_id: str, partitions: int) -> int:
    """Return the partition that keeps a group."""
    return coordinator_partition(group_id, partitions)
