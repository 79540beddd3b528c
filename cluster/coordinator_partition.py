"""What the topics of coordinators have in common: their configuration, and which partition keeps what.

A group or a transactional id is kept where Kafka's rule says, and so that of its tools.

Source: `abs(String.hashCode()) % partitions`, Apache Kafka's GroupMetadataManager and TransactionStateManager.
"""

# The table is in every snapshot, so of the log only the newest segments are kept: what is deleted there has been
# replaced, or stands in the snapshot that moves with the log's start (RFC 0008).
COORDINATOR_TOPIC_CONFIGS = {
    "segment.bytes": str(16 * 1024 * 1024),
    "retention.bytes": str(16 * 1024 * 1024),
    "retention.ms": "-1",
    "max.message.bytes": str(16 * 1024 * 1024),
    "write.caching": "false",
}

_I32_MIN = -(2**31)


def coordinator_partition(name: str, partitions: int) -> int:
    """Return the partition, from 0 to `partitions` - 1, that keeps what has this name."""
    value = 0
    encoded = name.encode("utf-16-be")
    for position in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[position : position + 2], "big")) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    return 0 if signed == _I32_MIN else abs(signed) % partitions
