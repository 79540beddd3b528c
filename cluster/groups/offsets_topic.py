"""`__consumer_offsets`: which of its partitions keeps a group, and how it is configured."""

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

_I32_MIN = -(2**31)


def offsets_partition(group_id: str, partitions: int) -> int:
    """Return the partition that keeps a group, by Kafka's rule: `abs(hashCode of the Java string) % partitions`."""
    value = 0
    encoded = group_id.encode("utf-16-be")
    for position in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[position : position + 2], "big")) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    return 0 if signed == _I32_MIN else abs(signed) % partitions
