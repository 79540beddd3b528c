"""`__raftka_telemetry`: its shape, and which of its partitions keeps the records of a replica."""

import crc32c

from model.ids import ConsistencyLevel

TELEMETRY_TOPIC = "__raftka_telemetry"

# A leader that dies takes a third of the records with it until there is another one, and a broker sends three batches.
TELEMETRY_PARTITIONS = 3

_MIB = 1024 * 1024

TELEMETRY_TOPIC_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": str(3600 * 1000),
    # Retention deletes whole segments: with the default of a week the hour would be one.
    "segment.ms": str(600 * 1000),
    "segment.bytes": str(16 * _MIB),
    # An hour of some 400 replicas; of more it keeps less than the hour, and not more than this of the disk.
    "retention.bytes": str(512 * _MIB),
    "max.message.bytes": str(_MIB),
    # Whatever the broker's defaults are: the records say what second they tell of.
    "message.timestamp.type": "CreateTime",
    "write.caching": "false",
}

# What was published survives the leader that took it: the second before its death is the one that is looked at.
TELEMETRY_LEVEL = ConsistencyLevel.QUORUM_ACK


def telemetry_partition(key: bytes, partitions: int) -> int:
    """Return the partition that keeps the records of a key."""
    return int(crc32c.crc32c(key)) % partitions
