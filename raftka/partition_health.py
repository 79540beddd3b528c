"""What is wrong with a partition, in the word that `raftka partition list` and the admin port have for it."""

from collections.abc import Sequence
from enum import StrEnum


class PartitionHealth(StrEnum):
    """From what costs nothing to what costs most."""

    OK = "ok"
    UNDER_REPLICATED = "under-replicated"
    UNDER_MIN_ISR = "under-min-isr"
    OFFLINE = "offline"


def partition_health(
    leader: int, replicas: Sequence[int], in_sync: Sequence[int], min_in_sync: int | None
) -> PartitionHealth:
    """Return the worst that is true.

    Args:
        leader: Node id, negative: nobody leads, so nobody reads or writes.
        replicas: Node ids of all replicas.
        in_sync: Those of them that are in sync.
        min_in_sync: The topic's min.insync.replicas; None: not known. Fewer in sync refuse acks=all, and a partition
            with fewer replicas than that needs all of them.
    """
    if leader < 0:
        return PartitionHealth.OFFLINE
    if min_in_sync is not None and len(in_sync) < min(min_in_sync, len(replicas)):
        return PartitionHealth.UNDER_MIN_ISR
    return PartitionHealth.OK if len(in_sync) >= len(replicas) else PartitionHealth.UNDER_REPLICATED
