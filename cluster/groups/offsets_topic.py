"""`__consumer_offsets`: which of its partitions keeps a group, and how it is configured."""

from cluster.coordinator_partition import coordinator_partition
from model.ids import ConsistencyLevel

OFFSETS_TOPIC = "__consumer_offsets"

# The table is in every snapshot, so of the log only the newest segments are kept: what is deleted there has been
# replaced, or stands in the snapshot that moves with the log's start (RFC 0008).
OFFSETS_TOPIC_CONFIGS = {
    "segment.bytes": str(16 * 1024 * 1024),
    "retention.bytes": str(16 * 1024 * 1024),
    "retention.ms": "-1",
    "max.message.bytes": str(16 * 1024 * 1024),
    "write.caching": "false",
}

# Everything in it is written so: a commit that was answered is on the disks of a majority.
OFFSETS_LEVEL = ConsistencyLevel.QUORUM_ACK


def offsets_partition(group_id: str, partitions: int) -> int:
    """Return the partition that keeps a group."""
    return coordinator_partition(group_id, partitions)
