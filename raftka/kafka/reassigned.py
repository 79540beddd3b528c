"""Which partitions are being moved, beside what Metadata tells, which counts replicas that are only on their way.

Kafka compares the in-sync set of such a partition with the replicas that it had before (KIP-455). So does this module.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from raftka.kafka import client as kafka_client
from raftka.kafka.client import ClusterInfo, PartitionInfo
from raftka.kafka.errors import KafkaClientError
from raftka.kafka.one_broker import ask
from raftka.kafka.wire.reassignment_requests import Reassignment, list_reassignments

Moves = Mapping[tuple[str, int], Reassignment]


class Seen(NamedTuple):
    """What Metadata tells, and the partitions that are being moved, by topic and number."""

    cluster: ClusterInfo
    moves: Moves


def read_moves(cluster: ClusterInfo, seconds: float) -> Moves:
    """Return the partitions that are being moved, as the first broker tells; of one that knows no moves, none are."""
    if not cluster.brokers:
        return {}
    node, address = next(iter(cluster.brokers.items()))
    try:
        told = ask(node, address, list_reassignments(round(seconds * 1000)), seconds).partitions
    except KafkaClientError:
        return {}
    return {(each.topic, each.partition): each for each in told}


def see(brokers: str, cluster: ClusterInfo, seconds: float) -> Seen:
    """Return the cluster with its moves.

    If a partition is not in sync in `cluster`, Metadata is read once more between two looks at the moves. So a move
    that begins or ends meanwhile is among them.

    Args:
        brokers: Bootstrap addresses.
        cluster: What Metadata tells.
        seconds: How long a broker may take to tell its moves.

    Raises:
        KafkaClientError: No broker answers any more.
    """
    moves = read_moves(cluster, seconds)
    if any(len(each.in_sync) < len(each.replicas) for rows in cluster.topics.values() for each in rows):
        cluster = kafka_client.read_cluster(brokers)
        moves = {**moves, **read_moves(cluster, seconds)}
    return Seen(cluster, moves)


def with_origins(moves: Moves, origins: Mapping[tuple[str, int], Collection[int]]) -> Moves:
    """Return the moves with the replicas that partitions had before, where Raftka's admin ports tell them.

    By Kafka's request alone, the replicas of a target that was given up look like those that a partition had.
    """
    return {
        where: each._replace(adding=[node for node in each.replicas if node not in origins[where]])
        if where in origins
        else each
        for where, each in moves.items()
    }


def former(partition: PartitionInfo, move: Reassignment | None) -> list[int]:
    """Return the replicas that a partition had before its move, as far as that is known."""
    if move is None:
        return partition.replicas
    # A move that adds nothing makes replicas fewer, or was taken back: what it drops may never have been one.
    dropped = move.adding or move.removing
    return [node for node in partition.replicas if node not in dropped]


def target(move: Reassignment | None) -> list[int]:
    """Return the replicas that a partition is to have; empty: it is not being moved."""
    return [] if move is None else [node for node in move.replicas if node not in move.removing]


def is_under_replicated(partition: PartitionInfo, move: Reassignment | None) -> bool:
    """Return whether a replica is not in sync that a partition had before its move.

    Those that go need not be in sync any more once all that the partition is to have are.
    """
    in_sync = set(partition.in_sync)
    if move is not None and in_sync.issuperset(target(move)):
        return False
    return not in_sync.issuperset(former(partition, move))
