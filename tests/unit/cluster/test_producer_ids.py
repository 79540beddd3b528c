"""Producer ids in running clusters: unique for ever, in blocks, from raft0."""

import asyncio

import pytest
from cluster_nodes import cluster_of, run, until

from cluster.commands import AllocateProducerIds
from cluster.errors import ControllerUnavailableError
from cluster.producer_id_table import BLOCK_SIZE


def test_ids_are_unique_on_all_brokers_and_after_the_leader_has_changed(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            asked = [node.producer_ids.allocate(10) for node in cluster.nodes.values() for _ in range(5)]
            ids = list(await asyncio.gather(*asked))
            leader = int(cluster.controller.options.node_id)
            await cluster.stop(leader)
            ids += [await node.producer_ids.allocate(10) for node in cluster.nodes.values()]
            await cluster.start(leader)
            ids.append(await cluster[leader].producer_ids.allocate(10))
            assert len(set(ids)) == len(ids) == 18
            # Who was stopped has lost the rest of its block.
            await until(lambda: cluster[leader].controller.producer_ids.next_id == 4 * BLOCK_SIZE)

    run(test)


def test_one_block_serves_a_thousand_and_whoever_waits_for_the_next_shares_it(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            node = cluster[1]
            ids = await asyncio.gather(*(node.producer_ids.allocate(10) for _ in range(2 * BLOCK_SIZE + 1)))
            assert sorted(ids) == list(range(2 * BLOCK_SIZE + 1))
            assert node.controller.producer_ids.next_id == 3 * BLOCK_SIZE

    run(test)


def test_without_a_majority_of_raft0_there_is_no_id_but_a_named_error(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.stop(2, 3)
            with pytest.raises(ControllerUnavailableError):
                await cluster[1].producer_ids.allocate(0.3)

    run(test)


def test_a_block_that_an_earlier_proposal_took_is_passed_over(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            controller = cluster[1].controller
            deadline = asyncio.get_running_loop().time() + 10
            # Its proposer has given up by the time it is applied; the next one has read the table before that.
            stray = controller.propose(AllocateProducerIds(0, BLOCK_SIZE), deadline)
            _, producer_id = await asyncio.gather(stray, cluster[1].producer_ids.allocate(10))
            assert producer_id == BLOCK_SIZE

    run(test)


def test_a_producer_that_comes_after_a_topic_has_no_id_from_before_it(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            node = cluster[1]
            before = await node.producer_ids.allocate(10)
            await cluster.create_topic("t")
            assert before < node.controller.topics.get("t").older_producers <= await node.producer_ids.allocate(10)

    run(test)
