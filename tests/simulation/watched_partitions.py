"""Tells the invariants what Kafka clients are answered: every partition of every broker is watched from within."""

from cluster.node import Node
from cluster.partition import Partition
from model.ids import GroupId
from raft.replicate_item import ReplicateResult
from tests.simulation.observer import Observer
from tests.simulation.replica_view import content_key


def watch_partitions(node: Node, node_id: int, life: int, observer: Observer) -> None:
    """Watch each partition that the node will open; before it opens the first."""
    add = node.partitions.add

    def added(group: GroupId, partition: Partition) -> None:
        _watch(node, node_id, life, observer, partition)
        add(group, partition)

    node.partitions.add = added  # type: ignore[method-assign]
    remove = node.groups.remove

    async def removed(group: GroupId) -> bool:
        observer.forget(group)
        return await remove(group)

    node.groups.remove = removed  # type: ignore[method-assign]


def _watch(node: Node, node_id: int, life: int, observer: Observer, partition: Partition) -> None:
    produce, fetch, group = partition.produce, partition.fetch, partition.consensus.group

    def produced(batch, record_count, level, deadline):
        content = content_key(batch)
        stages = produce(batch, record_count, level, deadline)

        def answered(replicated) -> None:
            if not replicated.cancelled() and replicated.exception() is None:
                result: ReplicateResult = replicated.result()
                observer.history.counts[f"acked {level.name}"] += 1
                observer.observe(node, node_id, life)
                observer.answered(node_id, group, level, content, result)

        stages.replicated.add_done_callback(answered)
        return stages

    async def fetched(offset, max_bytes):
        term = partition.leader_epoch
        batches = await fetch(offset, max_bytes)
        if partition.is_in_office and partition.leader_epoch == term:
            observer.observe(node, node_id, life)
            for batch in batches:
                base, count = int.from_bytes(batch[:8], "big"), int.from_bytes(batch[57:61], "big")
                observer.read(node_id, group, base, count, content_key(batch))
        return batches

    partition.produce, partition.fetch = produced, fetched  # type: ignore[method-assign]
