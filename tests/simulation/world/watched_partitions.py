"""Tells the invariants what Kafka clients are answered: every partition of every broker is watched from within."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

from cluster.node import Node
from cluster.partition import HIGH_WATERMARK, Partition
from model.ids import ConsistencyLevel, GroupId, topic_of
from raft.replicate_item import ReplicateResult
from storage.file_range import FileRange
from tests.engine import consensus_of
from tests.simulation.invariants.invariant import InvariantBrokenError
from tests.simulation.world.observer import Observer
from tests.simulation.world.replica_view import content_key
from tests.simulation.world.sim_disk import ObservedFile


def watch_partitions(node: Node, node_id: int, life: int, observer: Observer) -> None:
    """Watch each partition that the node will open; before it opens the first."""
    add = node.partitions.add

    def added(group: GroupId, partition: Partition) -> None:
        _watch(node, node_id, life, observer, partition)
        add(group, partition)

    node.partitions.add = added  # type: ignore[method-assign]
    remove = node.groups.remove

    async def removed(group: GroupId) -> bool:
        is_in_table = node.controller.topics.get_by_id(topic_of(group)) is not None
        with reported():
            # The command that deletes the topic may have been committed in this very step.
            observer.observe(node, node_id, life)
            observer.removed(node_id, group, is_in_table=is_in_table)
        return await remove(group)

    node.groups.remove = removed  # type: ignore[method-assign]


def _watch(node: Node, node_id: int, life: int, observer: Observer, partition: Partition) -> None:
    produce, group = partition.produce, partition.group

    def produced(batch, record_count, level, deadline, expected_term=None, **how):
        content = content_key(batch)
        if partition.topic.is_internal:
            # The coordinator's own.
            observer.history.sent.add(content)
        if level is ConsistencyLevel.QUORUM_ACK and not consensus_of(partition).state.write_caching:
            observer.history.sent_at_quorum.add(content)
        stages = produce(batch, record_count, level, deadline, expected_term, **how)

        def answered(replicated) -> None:
            if not replicated.cancelled() and replicated.exception() is None:
                result: ReplicateResult = replicated.result()
                observer.history.counts[f"acked {level.name}"] += 1
                # What is answered before it is fsynced is promised no more than a relaxed write (RFC 0003, levels).
                is_cached = level is ConsistencyLevel.QUORUM_ACK and consensus_of(partition).state.write_caching
                promised = ConsistencyLevel.LEADER_ACK if is_cached else level
                with reported():
                    observer.observe(node, node_id, life)
                    observer.answered(node_id, group, promised, content, result)

        stages.replicated.add_done_callback(answered)
        return stages

    def watched(fetch, batches_of=list):
        async def fetched(offset, max_bytes, **how):
            term = partition.leader_epoch
            found = await fetch(offset, max_bytes, **how)
            if partition.is_in_office and partition.leader_epoch == term:
                with reported():
                    observer.observe(node, node_id, life)
                    for batch in _as_read(partition, batches_of(found), observer.history.counts):
                        base, count = int.from_bytes(batch[:8], "big"), int.from_bytes(batch[57:61], "big")
                        observer.read(node_id, group, base, count, content_key(batch))
            return found

        return fetched

    partition.produce = produced  # type: ignore[method-assign]
    partition.fetch = watched(partition.fetch)  # type: ignore[method-assign]
    partition.fetch_to_send = watched(partition.fetch_to_send)  # type: ignore[method-assign]
    committed = watched(partition.fetch_committed, lambda found: found.batches)
    partition.fetch_committed = committed  # type: ignore[method-assign]
    _watch_deletions(partition, observer.history.may_begin_at.setdefault(group, {0}))


def _as_read(partition: Partition, batches, counts: Counter[str]):
    """Yield batches; of a range of a file what is there now, in the step in which it is told: it has to stay the same.

    Bytes that have rotted since they were checked are for the client to find (RFC 0002 section 14).
    """
    for batch in batches:
        if not isinstance(batch, FileRange):
            yield batch
            continue
        inode = consensus_of(partition).log._context.env.files.inode(batch.file.path)
        counts["ranges of files"] += 1
        if inode.has_rotted:
            counts["ranges of rotted files"] += 1
        else:
            yield ObservedFile(inode).pread(len(batch), batch.position)


def _watch_deletions(partition: Partition, may_begin_at: set[int]) -> None:
    delete_records, apply_retention = partition.delete_records, partition.apply_retention

    async def deleted(offset, deadline):
        may_begin_at.add(partition.high_watermark if offset == HIGH_WATERMARK else offset)
        return await delete_records(offset, deadline)

    async def retained(now_ms, deadline):
        # By time nothing goes in a simulated run.
        left = 0
        for segment in reversed(consensus_of(partition).log.segments_for_retention()):
            left += segment.size
            if 0 <= partition.config.retention_bytes <= left:
                may_begin_at.add(segment.base_offset)
        return await apply_retention(now_ms, deadline)

    partition.delete_records, partition.apply_retention = deleted, retained  # type: ignore[method-assign]


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """End the run if an invariant objects: a connection takes whatever its handler raises for its own trouble."""
    try:
        yield
    except InvariantBrokenError as error:
        asyncio.get_running_loop().call_exception_handler({"message": "an invariant is broken", "exception": error})
        raise
