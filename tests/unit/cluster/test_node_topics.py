"""Topics in running clusters of one, three and five nodes."""

import asyncio
import os

import pytest
from cluster_nodes import cluster_of, create_request, run, until

from cluster.admin_messages import DeleteTopicRequest
from cluster.errors import (
    ControllerUnavailableError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicConfigError,
    InvalidTopicNameError,
    TopicExistsError,
    UnknownTopicError,
)
from cluster.topic_changes import PARTITIONS_MAX
from model.ids import NodeId
from model.topic_config import TopicConfig
from raft.replica_directories import ReplicaDirectories

REFUSED = [
    (create_request(""), InvalidTopicNameError),
    (create_request("."), InvalidTopicNameError),
    (create_request(".."), InvalidTopicNameError),
    (create_request("a/b"), InvalidTopicNameError),
    (create_request("a\n"), InvalidTopicNameError),
    (create_request("x" * 250), InvalidTopicNameError),
    (create_request("t", 0), InvalidPartitionsError),
    (create_request("t", -7), InvalidPartitionsError),
    (create_request("t", PARTITIONS_MAX + 1), InvalidPartitionsError),
    (create_request("t", 1, 0), InvalidReplicationFactorError),
    (create_request("t", 1, 4), InvalidReplicationFactorError),
    (create_request("t", assignment=[[1, 1]]), InvalidReplicaAssignmentError),
    (create_request("t", assignment=[[1], []]), InvalidReplicaAssignmentError),
    (create_request("t", assignment=[[1], [1, 2]]), InvalidReplicaAssignmentError),
    (create_request("t", assignment=[[1, 9]]), InvalidReplicaAssignmentError),
    (create_request("t", assignment=[[1]] * (PARTITIONS_MAX + 1)), InvalidPartitionsError),
    (create_request("t", configs={"no.such.key": "1"}), InvalidTopicConfigError),
    (create_request("t", configs={"segment.bytes": "1"}), InvalidTopicConfigError),
    (create_request("t", 1, 3, configs={"min.insync.replicas": "4"}), InvalidTopicConfigError),
    (create_request("taken"), TopicExistsError),
]


def votes_of(node, topic_id):
    return [key for key, _ in node._kvstore.items("raft/") if topic_id in key]


def test_every_refusal_is_the_same_error_at_the_leader_and_through_another_broker(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("taken")
            before = [topic.name for topic in cluster.controller.controller.topics.all()]
            for request, error in REFUSED:
                for node in cluster.nodes.values():
                    with pytest.raises(error) as refused:
                        await node.admin.create_topic(request)
                    assert type(refused.value) is error
            for node in cluster.nodes.values():
                with pytest.raises(UnknownTopicError):
                    await node.admin.delete_topic(DeleteTopicRequest("", "f" * 32, 5.0))
            assert [topic.name for topic in cluster.controller.controller.topics.all()] == before

    run(test)


def test_a_topic_created_through_any_broker_is_led_and_written_everywhere(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            for number, node in cluster.nodes.items():
                reply = await node.admin.create_topic(create_request(f"topic{number}", 3, 3))
                assert (reply.error, reply.partitions, reply.replication_factor) == ("", 3, 3)
            for number in (1, 2, 3):
                await until(lambda number=number: cluster.has_leaders(f"topic{number}"))
                for partition in range(3):
                    assert await cluster.produce(f"topic{number}", b"a", b"b", number=partition) == 0
                    assert await cluster.produce(f"topic{number}", b"c", number=partition) == 2
            tables = [node.controller.topics.all() for node in cluster.nodes.values()]
            assert tables[0] == tables[1] == tables[2]
            topic = tables[0][0]
            assert sorted({replicas[0].node_id for replicas in topic.replicas}) == [1, 2, 3]

    run(test)


def test_a_deleted_topic_disappears_from_every_nodes_table_and_disk(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            topic_id = await cluster.create_topic("gone", 2, 3)
            kept_id = await cluster.create_topic("kept", 1, 3)
            await cluster.produce("gone", b"x")
            assert all(len(cluster.group_directories(number)) == 3 for number in (1, 2, 3))
            await cluster.delete_topic(topic_id)
            kept = [f"{kept_id}-0"]
            await until(lambda: all(cluster.group_directories(number) == kept for number in (1, 2, 3)))
            await until(lambda: not any(votes_of(node, topic_id) for node in cluster.nodes.values()))
            for node in cluster.nodes.values():
                assert node.controller.topics.get("gone") is None
                assert len(node.partitions) == 1

    run(test)


def test_a_recreated_topic_shares_nothing_with_its_predecessor(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            first = await cluster.create_topic("again", 1, 3)
            await cluster.produce("again", b"old", b"old")
            await cluster.delete_topic(first)
            await until(lambda: all(node.controller.topics.get("again") is None for node in cluster.nodes.values()))
            second = await cluster.create_topic("again", 1, 3)
            assert first != second
            assert cluster.leader_of("again").high_watermark == 0
            assert await cluster.produce("again", b"new") == 0

    run(test)


def test_only_checking_creates_nothing(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            reply = await cluster[1].admin.create_topic(create_request("t", 4, 1, validate_only=True))
            assert (reply.partitions, reply.replication_factor) == (4, 1)
            assert cluster[1].controller.topics.all() == []

    run(test)


def test_of_two_creations_at_once_through_two_brokers_one_wins(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            outcomes = await asyncio.gather(
                *(node.admin.create_topic(create_request("race")) for node in cluster.nodes.values()),
                return_exceptions=True,
            )
            assert sorted(type(outcome).__name__ for outcome in outcomes) == [
                "AdminReply",
                "TopicExistsError",
                "TopicExistsError",
            ]

    run(test)


def test_an_assignment_is_kept_in_its_order(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("mine", assignment=[[3, 1], [2, 3]])
            topic = cluster[1].controller.topics.get("mine")
            assert [[replica.node_id for replica in each] for each in topic.replicas] == [[3, 1], [2, 3]]

    run(test)


def test_the_configuration_reaches_the_topic_on_every_node(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3, defaults=TopicConfig(segment_ms=5000)) as cluster:
            await cluster.create_topic("t", 1, 3, configs={"min.insync.replicas": "2", "max.message.bytes": "500"})
            wanted = TopicConfig(segment_ms=5000, min_insync_replicas=2, max_message_bytes=500)
            assert [node.controller.topics.get("t").config for node in cluster.nodes.values()] == [wanted] * 3

    run(test)


def test_while_a_broker_is_down_new_topics_get_replicas_on_it_only_where_there_is_no_other_choice(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.stop(3)
            await until(lambda: cluster.controller and not cluster.controller.links.is_up(NodeId(3)))
            for name, factor, nodes in (("one", 1, {1, 2}), ("two", 2, {1, 2}), ("three", 3, {1, 2, 3})):
                await cluster.create_topic(name, 4, factor)
                topic = cluster[1].controller.topics.get(name)
                assert {replica.node_id for replicas in topic.replicas for replica in replicas} == nodes
                await cluster.produce(name, b"x")

    run(test)


def test_without_a_majority_a_request_ends_at_its_deadline(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.stop(1, 2)
            await until(lambda: cluster[3].controller.leader_id is None)
            loop = asyncio.get_running_loop()
            begin = loop.time()
            with pytest.raises(ControllerUnavailableError):
                await cluster[3].admin.create_topic(create_request("t", timeout=0.5))
            assert 0.4 < loop.time() - begin < 3

    run(test)


def test_a_cluster_of_one_needs_no_seeds_and_survives_a_restart(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            await cluster.create_topic("t", 3, 1)
            assert await cluster.produce("t", b"a", b"b", number=2) == 0
            cluster_id = cluster[1].cluster.cluster_id
            await cluster.stop(1)
            await cluster.start(1)
            await until(lambda: cluster.has_leaders("t"))
            assert cluster[1].cluster.cluster_id == cluster_id
            assert cluster.leader_of("t", 2).high_watermark == 2
            assert await cluster.produce("t", b"c", number=2) == 2

    run(test)


def test_a_cluster_of_five_goes_on_with_three(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 5) as cluster:
            await cluster.create_topic("t", 5, 5)
            topic = cluster[1].controller.topics.get("t")
            assert sorted(replicas[0].node_id for replicas in topic.replicas) == [1, 2, 3, 4, 5]
            for number in range(5):
                await cluster.produce("t", b"before", number=number)
            lost = [int(node.options.node_id) for node in cluster.nodes.values() if node is not cluster.controller][:2]
            await cluster.stop(*lost)
            await until(lambda: cluster.has_leaders("t"))
            for number in range(5):
                assert await cluster.produce("t", b"after", number=number) == 1

    run(test)


def test_a_topic_deleted_while_a_node_was_down_leaves_its_disk_when_it_returns(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            topic_id = await cluster.create_topic("gone", 2, 3)
            await cluster.stop(3)
            await cluster.delete_topic(topic_id)
            assert len(cluster.group_directories(3)) == 2
            await cluster.start(3)
            await until(lambda: os.listdir(f"{cluster.data_dir(3)}/groups") == ["raft0"])
            await until(lambda: not votes_of(cluster[3], topic_id))

    run(test)


def test_a_removal_that_was_cut_short_by_the_end_of_the_process_is_finished_by_the_next_one(tmp_path, monkeypatch):
    begin, begun = ReplicaDirectories.begin_removal, []

    async def begin_and_hang(directories, group):
        await begin(directories, group)
        begun.append(group)
        await asyncio.Event().wait()

    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            with monkeypatch.context() as patch:
                patch.setattr(ReplicaDirectories, "begin_removal", begin_and_hang)
                await cluster.delete_topic(await cluster.create_topic("gone", 5, 1))
                await until(lambda: len(begun) == 5)
                await cluster.stop(1)
            assert len(cluster.group_directories(1)) == 5
            await cluster.start(1)
            await until(lambda: os.listdir(f"{cluster.data_dir(1)}/groups") == ["raft0"])

    run(test)


def test_a_topic_that_could_not_start_here_is_forgotten_once_it_is_deleted(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            topic_id = await cluster.create_topic("damaged")
            await cluster.stop(1)
            with open(f"{cluster.data_dir(1)}/groups/{topic_id}-0/replica.id", "wb") as file:
                file.write(b"something else")
            await cluster.start(1)
            await until(lambda: cluster[1].backend.failed)
            assert "damaged" in next(iter(cluster[1].backend.failed.values()))
            await cluster.create_topic("healthy")
            await cluster.delete_topic(topic_id)
            await until(lambda: not cluster[1].backend.failed)
            # What cannot be told to be ours is left where it is.
            assert f"{topic_id}-0" in cluster.group_directories(1)

    run(test)
