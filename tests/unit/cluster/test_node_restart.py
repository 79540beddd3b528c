"""What a node finds again after its process ended."""

import asyncio

from cluster_nodes import SECRET, cluster_of, run, until

from cluster.admin_messages import RegisterBrokerRequest
from cluster.commands import BrokerRecord
from cluster.partition_status import PartitionStatusReader
from model.features import told_features
from model.ids import NodeId
from tests.engine import consensus_of
from tests.unit.model.record_batches import build_batch


def test_a_restarted_node_keeps_cluster_members_topics_and_records(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 2, 3, configs={"segment.ms": "9000"})
            await cluster.create_topic("elsewhere", assignment=[[1]])
            for _ in range(5):
                await cluster.produce("t", b"a", b"b", number=1)
            before = cluster[2]
            await cluster.stop(2)
            await cluster.start(2)
            after = cluster[2]
            assert after.replica == before.replica
            assert after.cluster == before.cluster
            await until(lambda: after.controller.topics.all() == before.controller.topics.all())
            assert after.controller.members.all() == before.controller.members.all()
            await until(lambda: cluster.has_leaders("t"))
            group = after.controller.topics.get("t").group(1)
            await until(lambda: after.partitions.get(group) and after.partitions.get(group).end_offset == 10)

    run(test)


def test_records_survive_the_restart_of_all_nodes(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            await cluster.produce("t", b"first")
            await cluster.produce("t", b"second", b"third")
            epoch = cluster.leader_of("t").leader_epoch
            await cluster.stop()
            await cluster.start()
            await until(lambda: cluster.has_leaders("t"))
            partition = cluster.leader_of("t")
            assert partition.leader_epoch > epoch
            assert partition.high_watermark == 3
            wanted = [
                build_batch(b"first", base_offset=0, leader_epoch=epoch),
                build_batch(b"second", b"third", base_offset=1, leader_epoch=epoch),
            ]
            assert [bytes(batch) for batch in await partition.fetch(0, 10_000)] == wanted
            assert partition.epoch_end(epoch) == (epoch, 3)

    run(test)


def test_a_node_that_was_away_catches_up(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            away = next(
                number
                for number in cluster.nodes
                if NodeId(number) != consensus_of(cluster.leader_of("t")).state.node_id
            )
            await cluster.stop(away)
            await until(lambda: cluster.has_leaders("t"))
            for _ in range(20):
                await cluster.produce("t", b"x" * 1000)
            await cluster.create_topic("new", 1, 2)
            await cluster.start(away)
            node = cluster[away]
            await until(lambda: node.controller.topics.get("new"))
            group = node.controller.topics.get("t").group(0)
            await until(lambda: node.partitions.get(group) and node.partitions.get(group).end_offset == 20)

    run(test)


def test_a_broker_that_moved_is_known_by_its_new_address(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            # The address of its links is dialled, so that one stays.
            link = cluster.seeds[1].host, cluster.seeds[1].port
            directory = cluster[2].replica.directory_id
            moved = BrokerRecord(2, directory, "elsewhere", 1234, *link, "a", 2, told_features())
            await cluster[3].admin.register_broker(RegisterBrokerRequest(moved, 5.0))
            await until(lambda: all(node.controller.members.get(NodeId(2)) == moved for node in cluster.nodes.values()))
            index = cluster.controller.controller.applied_index
            await cluster[1].admin.register_broker(RegisterBrokerRequest(moved, 5.0))
            assert cluster.controller.controller.applied_index == index, "nothing new, nothing written"

    run(test)


def test_any_node_gathers_where_all_replicas_stand(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            readers = {
                number: PartitionStatusReader(node.links, node.partitions, NodeId(number))
                for number, node in cluster.nodes.items()
            }
            await cluster.produce("t", b"a", b"b")
            topic = cluster[1].controller.topics.get("t")
            leader = consensus_of(cluster.leader_of("t")).state.node_id

            async def settled():
                while True:
                    statuses = await readers[1].gather(topic, 0)
                    if [status.visible.offset for status in statuses] == [1, 1, 1]:
                        return statuses
                    await asyncio.sleep(0.01)

            statuses = await settled()
            assert [status.node_id for status in statuses] == [1, 2, 3]
            assert {status.leader for status in statuses} == {leader}
            assert [status.role for status in statuses].count("L") == 1
            assert len({status.dirty for status in statuses}) == 1
            await cluster.stop(3)
            assert [status.node_id for status in await readers[2].gather(topic, 0)] == [1, 2]

    run(test)


def test_is_alive_says_whose_link_works(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await until(lambda: all(cluster[1].is_alive(NodeId(number)) for number in (1, 2, 3)))
            await cluster.stop(3)
            await until(lambda: not cluster[1].is_alive(NodeId(3)))
            assert cluster[1].is_alive(NodeId(1))
            assert not cluster[1].is_alive(NodeId(77))

    run(test)


def test_the_secret_is_in_no_representation(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            assert repr(SECRET)[2:-1] not in repr(cluster[1].options)

    run(test)
