"""raft0's own log is cut: what its commands have led to is in its snapshots."""

import asyncio
import shutil

from cluster_nodes import cluster_of, run, until

SEGMENT_BYTES = 2048


async def churn(cluster, count):
    """Create and delete topics until raft0's log has several segments."""
    for number in range(count):
        await cluster.delete_topic(await cluster.create_topic(f"passing-{number}", 4))


async def cut(cluster):
    """Let raft0's leader begin its log as late as it may; return its first index."""
    controller = cluster.controller.controller
    deadline = asyncio.get_running_loop().time() + 10
    assert await controller.apply_retention(SEGMENT_BYTES, 0, deadline)
    await until(lambda: controller.consensus.log.start_index > 1)
    return controller.consensus.log.start_index


def test_a_node_restarts_from_a_log_that_was_cut(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1, raft0_segment_bytes=SEGMENT_BYTES) as cluster:
            await cluster.create_topic("stays", 2, configs={"retention.ms": "5000"})
            await cluster.produce("stays", b"x")
            await churn(cluster, 10)
            assert await cluster[1].producer_ids.allocate(10.0) == 0
            start = await cut(cluster)
            before = cluster[1].controller
            await cluster.stop(1)
            await cluster.start(1)
            after = cluster[1].controller
            assert after.consensus.log.start_index == start
            assert after.topics.all() == before.topics.all()
            assert after.members.all() == before.members.all()
            assert after.producer_ids.next_id == before.producer_ids.next_id == 1000
            await until(lambda: cluster.has_leaders("stays"))
            assert cluster.leader_of("stays").high_watermark == 1

    run(test)


def test_a_node_that_was_away_gets_a_snapshot_and_removes_what_was_deleted_meanwhile(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3, raft0_segment_bytes=SEGMENT_BYTES) as cluster:
            deleted = await cluster.create_topic("deleted", 2, 3)
            await cluster.create_topic("stays", 1, 3)
            await until(lambda: len(cluster.group_directories(3)) == 3)
            await cluster.stop(3)
            await until(cluster.has_controller)
            await cluster.delete_topic(deleted)
            await churn(cluster, 10)
            end = cluster.controller.controller.applied_index
            start = await cut(cluster)
            await cluster.start(3)
            back = cluster[3].controller
            assert back.applied_index >= end
            assert back.consensus.log.start_index == start
            assert [topic.name for topic in back.topics.all()] == ["stays"]
            await until(lambda: len(cluster.group_directories(3)) == 1)
            await until(lambda: cluster.has_leaders("stays"))

    run(test)


def test_a_directory_left_of_a_topic_that_a_snapshot_does_not_know_is_removed(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1, raft0_segment_bytes=SEGMENT_BYTES) as cluster:
            topic_id = await cluster.create_topic("deleted")
            await cluster.create_topic("stays")
            await until(lambda: len(cluster.group_directories(1)) == 2)
            group = cluster[1].controller.topics.get("deleted").group(0)
            leftover = tmp_path / "n1" / "groups" / f"{topic_id}-0"
            kept = {key: value for key, value in cluster.durable[1].items() if group in key}
            shutil.copytree(leftover, tmp_path / "kept")
            await cluster.delete_topic(topic_id)
            await until(lambda: len(cluster.group_directories(1)) == 1)
            await churn(cluster, 10)
            await cut(cluster)
            await cluster.stop(1)
            # As after a crash before the directory was removed, which came before the snapshot of the tables.
            shutil.move(tmp_path / "kept", leftover)
            cluster.durable[1].update(kept)
            await cluster.start(1)
            await until(lambda: not leftover.exists())
            # So is what the stop left of the topics that were deleted just before it.
            await until(lambda: cluster[1].backend.is_reconciled)
            assert len(cluster.group_directories(1)) == 1
            await cluster.stop(1)
            assert not any(group in key for key in cluster.durable[1])

    run(test)
