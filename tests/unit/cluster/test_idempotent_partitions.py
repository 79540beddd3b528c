"""What a partition's replicas know of producers: the same on the next leader and after a restart of all."""

import asyncio

from cluster_nodes import cluster_of, run, until

from cluster.producer_errors import OutOfOrderSequenceError
from model.ids import ConsistencyLevel
from tests.unit.model.record_batches import build_batch


async def produce(cluster, first, count=1, level=ConsistencyLevel.QUORUM_ACK):
    """Send a batch of producer 7 to the leader; return its base offset or the refusal."""
    batch = build_batch(*[b"%d" % number for number in range(count)], producer_id=7, base_sequence=first)
    deadline = asyncio.get_running_loop().time() + 10
    stages = cluster.leader_of("t").produce(bytearray(batch), count, level, deadline)
    try:
        return (await stages.replicated).base_offset
    except OutOfOrderSequenceError as error:
        return type(error)


async def expect_the_producer_known(cluster):
    assert await produce(cluster, 3) == 3
    assert await produce(cluster, 1) == 1
    assert await produce(cluster, 7) is OutOfOrderSequenceError
    assert cluster.leader_of("t").end_offset == 4


def test_the_next_leader_knows_the_producers(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            assert [await produce(cluster, number) for number in range(4)] == [0, 1, 2, 3]
            for _ in range(2):
                leader = int(cluster.leader_of("t").leader_id)
                await cluster.stop(leader)
                await until(lambda: cluster.has_leaders("t"))
                await expect_the_producer_known(cluster)
                await cluster.start(leader)

    run(test)


def test_a_restart_of_all_knows_the_producers(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            assert [await produce(cluster, number) for number in range(4)] == [0, 1, 2, 3]
            await cluster.stop()
            await cluster.start()
            await until(lambda: cluster.has_leaders("t"))
            await expect_the_producer_known(cluster)
            assert await produce(cluster, 4) == 4

    run(test)
