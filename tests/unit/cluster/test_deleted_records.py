"""DeleteRecords and retention: the start of a partition moves on every replica, for ever, and files go."""

import asyncio
from pathlib import Path

import pytest
from cluster_nodes import Cluster, cluster_of, run, until

from cluster.errors import OffsetOutOfRangeError
from cluster.partition import HIGH_WATERMARK, Partition
from model.ids import Offset
from model.topic_config import TopicConfig
from raft.errors import NotLeaderError
from tests.engine import consensus_of

# Two batches of this size fill a segment.
_SEGMENTS = TopicConfig(segment_bytes=1024 * 1024, retention_ms=-1)
_VALUE = b"x" * 400_000


async def filled(cluster: Cluster, batches: int = 6, value: bytes = _VALUE) -> Partition:
    await cluster.create_topic("t", 1, len(cluster.nodes))
    for number in range(batches):
        await cluster.produce("t", b"%d" % number + value)
    return cluster.leader_of("t")


def deadline(seconds: float = 5.0) -> float:
    return asyncio.get_running_loop().time() + seconds


def replicas(cluster: Cluster) -> list[Partition]:
    group = cluster.leader_of("t").group
    return [partition for node in cluster.nodes.values() if (partition := node.partitions.get(group)) is not None]


def segments(cluster: Cluster, number: int, partition: Partition) -> list[str]:
    directory = Path(cluster.data_dir(number)) / "groups" / partition.group.replace("/", "-")
    return sorted(path.name for path in directory.glob("*.log"))


def test_records_are_deleted_on_every_replica_and_stay_deleted(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3, defaults=_SEGMENTS) as cluster:
            partition = await filled(cluster)
            assert await partition.delete_records(5, deadline()) == 5
            assert (partition.start_offset, partition.high_watermark) == (5, 6)
            assert await partition.delete_records(2, deadline()) == 5, "it never goes back"
            await until(lambda: all(each.start_offset == 5 for each in replicas(cluster)))
            await until(lambda: all(len(segments(cluster, n, partition)) == 1 for n in cluster.nodes))
            assert len(await partition.fetch(Offset(5), 1)) == 1

            await cluster.stop()
            await cluster.start()
            await until(lambda: cluster.has_leaders("t"))
            again = cluster.leader_of("t")
            assert (again.start_offset, again.high_watermark) == (5, 6)
            await cluster.produce("t", b"after")
            assert again.high_watermark == 7

    run(test)


def test_what_is_above_the_high_watermark_or_not_led_here_is_refused(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3, defaults=_SEGMENTS) as cluster:
            partition = await filled(cluster, 2, b"small")
            for offset in (3, -2):
                with pytest.raises(OffsetOutOfRangeError):
                    await partition.delete_records(offset, deadline())
            consensus_of(partition).step_down("the test says so")
            with pytest.raises(NotLeaderError):
                await consensus_of(partition).move_log_start(
                    consensus_of(partition).log.start, partition.leader_epoch, deadline()
                )

    run(test)


def test_everything_that_can_be_seen_is_deleted_and_the_log_goes_on(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1, defaults=_SEGMENTS) as cluster:
            partition = await filled(cluster, 3, b"small")
            assert await partition.delete_records(HIGH_WATERMARK, deadline()) == 3
            assert (partition.start_offset, partition.high_watermark) == (3, 3)
            assert await partition.fetch(Offset(3), 1000) == []
            await until(lambda: len(segments(cluster, 1, partition)) == 1)
            await cluster.produce("t", b"new")
            assert len(await partition.fetch(Offset(3), 1000)) == 1
            assert await partition.find_timestamp(0) is not None

    run(test)


def test_an_offset_inside_a_batch_is_a_start(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1, defaults=_SEGMENTS) as cluster:
            await cluster.create_topic("t", 1, 1)
            await cluster.produce("t", b"0", b"1", b"2")
            await cluster.produce("t", b"3")
            partition = cluster.leader_of("t")
            assert await partition.delete_records(1, deadline()) == 1
            assert len(await partition.fetch(Offset(1), 1)) == 1
            assert partition.start_offset == 1
            await cluster.stop(1)
            await cluster.start(1)
            await until(lambda: cluster.has_leaders("t"))
            assert cluster.leader_of("t").start_offset == 1

    run(test)


def test_retention_by_size_deletes_the_oldest_segments(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3, defaults=_SEGMENTS) as cluster:
            partition = await filled(cluster)
            now_ms = cluster[1].env.wall_clock.now_ms()
            assert await partition.apply_retention(now_ms, deadline()) is None
            partition.config = TopicConfig(segment_bytes=1024 * 1024, retention_ms=-1, retention_bytes=800_000)
            start = await partition.apply_retention(now_ms, deadline())
            assert start == partition.start_offset == 4
            await until(lambda: all(each.start_offset == 4 for each in replicas(cluster)))
            await until(lambda: all(len(segments(cluster, n, partition)) == 1 for n in cluster.nodes))
            assert await partition.apply_retention(now_ms, deadline()) is None

    run(test)


def test_retention_by_time_reaches_the_segment_that_is_written_to(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3, defaults=_SEGMENTS) as cluster:
            partition = await filled(cluster)
            partition.config = TopicConfig(segment_bytes=1024 * 1024, retention_ms=60_000)
            later = cluster[1].env.wall_clock.now_ms() + 120_000
            assert await partition.apply_retention(later, deadline()) == 6
            assert partition.start_offset == partition.high_watermark == 6
            await until(lambda: all(len(segments(cluster, n, partition)) == 1 for n in cluster.nodes))
            await until(lambda: all(consensus_of(each).log.size_bytes < 1000 for each in replicas(cluster)))
            assert await partition.apply_retention(later, deadline()) is None, "what is left holds no records"

    run(test)
