"""Which partition of a coordinators' topic keeps a group or a transactional id: Kafka's rule, and so that of its tools.

Source: `abs(String.hashCode()) % partitions`, Apache Kafka's GroupMetadataManager and TransactionStateManager.
"""

_I32_MIN = -(2**31)


def coordinator_partition(name: str, partitions: int) -> int:
    """Return the partition, from 0 to `partitions` - 1, that keeps what has this name."""
    value = 0
    encoded = name.encode("utf-16-be")
    for position in range(0, len(encoded), 2):
        value = (31 * value + int.from_bytes(encoded[position : position + 2], "big")) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    return 0 if signed == _I32_MIN else abs(signed) % partitions
