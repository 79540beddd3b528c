"""Topics that change while they are in use: configurations and growth, in clusters of one and three nodes."""

import pytest
from cluster_nodes import cluster_of, create_request, run, until

from cluster.admin_messages import AlterTopicConfigsRequest, CreatePartitionsRequest
from cluster.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidTopicConfigError,
    UnknownTopicError,
)
from cluster.topic_changes import PARTITIONS_MAX, ConfigChange, ConfigOperation
from model.topic_config import TopicConfig
from tests.engine import consensus_of


def partitions_of(cluster, name):
    """Every local replica of partition 0 in the cluster; None where there is none yet."""
    topics = [node.controller.topics.get(name) for node in cluster.nodes.values()]
    return [
        topic and node.partitions.get(topic.group(0))
        for node, topic in zip(cluster.nodes.values(), topics, strict=True)
    ]


def alter(name, *changes, replaces_all=False, validate_only=False):
    return AlterTopicConfigsRequest(name, list(changes), replaces_all, validate_only, 5.0)


def grow(name, partitions, *assignment, validate_only=False):
    return CreatePartitionsRequest(name, partitions, [list(nodes) for nodes in assignment], validate_only, 5.0)


def test_an_altered_configuration_reaches_every_running_replica(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3, configs={"segment.ms": "5000"})
            await until(lambda: all(partitions_of(cluster, "t")))
            changes = [
                ConfigChange("min.insync.replicas", ConfigOperation.SET, "3"),
                ConfigChange("segment.bytes", ConfigOperation.SET, "1048576"),
                ConfigChange("segment.ms", ConfigOperation.DELETE, None),
            ]
            await cluster[2].admin.alter_topic_configs(alter("t", *changes, validate_only=True))
            assert cluster[1].controller.topics.get("t").overrides == {"segment.ms": "5000"}
            for minimum in ("3", "2"):
                changes[0] = ConfigChange("min.insync.replicas", ConfigOperation.SET, minimum)
                await cluster[2].admin.alter_topic_configs(alter("t", *changes))
                wanted = TopicConfig(min_insync_replicas=int(minimum), segment_bytes=1024 * 1024)
                await until(lambda wanted=wanted: all(each.config == wanted for each in partitions_of(cluster, "t")))
                for partition in partitions_of(cluster, "t"):
                    assert [quorum.k for quorum in consensus_of(partition).state.answer_quorums] == [int(minimum)]
                    assert [quorum.k for quorum in consensus_of(partition).state.commit_quorums] == [2]

    run(test)


def test_a_replica_that_was_away_has_the_altered_configuration_when_it_is_back(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 3)
            await cluster.stop(3)
            await until(cluster.has_controller)
            change = ConfigChange("max.message.bytes", ConfigOperation.SET, "100")
            await cluster[1].admin.alter_topic_configs(alter("t", change))
            await cluster.start(3)
            await until(lambda: all(partitions_of(cluster, "t")))
            await until(lambda: all(each.config.max_message_bytes == 100 for each in partitions_of(cluster, "t")))

    run(test)


def test_a_topic_grows_through_any_broker_and_keeps_what_it_has(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 2, 3)
            before = cluster.controller.controller.topics.get("t").replicas
            for node, count in ((1, 3), (2, 4), (3, 7)):
                await cluster[node].admin.create_partitions(grow("t", count, validate_only=True))
                assert len(cluster.controller.controller.topics.get("t").replicas) < count
                reply = await cluster[node].admin.create_partitions(grow("t", count))
                assert reply.partitions == count
            tables = [node.controller.topics for node in cluster.nodes.values()]
            await until(lambda: all(len(table.get("t").replicas) == 7 for table in tables))
            topic = tables[0].get("t")
            assert {table.get("t").replicas for table in tables} == {topic.replicas}
            assert topic.replicas[:2] == before
            assert all(len(replicas) == 3 for replicas in topic.replicas)
            await until(lambda: all(cluster[1].leadership.leader_of(topic.group(number)) for number in range(7)))

    run(test)


def test_new_partitions_go_where_they_are_told_to(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            await cluster.create_topic("t", 1, 2)
            await cluster.controller.admin.create_partitions(grow("t", 3, (3, 1), (2, 3)))
            replicas = cluster.controller.controller.topics.get("t").replicas
            assert [[replica.node_id for replica in each] for each in replicas[1:]] == [[3, 1], [2, 3]]

    run(test)


GROWTHS = [
    (grow("nix", 5), UnknownTopicError),
    (grow("t", 2), InvalidPartitionsError),
    (grow("t", 1), InvalidPartitionsError),
    (grow("t", -1), InvalidPartitionsError),
    (grow("t", PARTITIONS_MAX + 1), InvalidPartitionsError),
    (grow("t", 4, [1]), InvalidReplicaAssignmentError),
    (grow("t", 3, [1, 1]), InvalidReplicaAssignmentError),
    (grow("t", 3, [2]), InvalidReplicaAssignmentError),
    (grow("t", 4, [1], []), InvalidReplicaAssignmentError),
]


def test_every_refused_growth_and_change_leaves_the_topic_as_it_was(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1) as cluster:
            await cluster.create_topic("t", 2)
            admin, before = cluster[1].admin, cluster[1].controller.topics.get("t")
            for request, error in GROWTHS:
                with pytest.raises(error):
                    await admin.create_partitions(request)
            with pytest.raises(UnknownTopicError):
                await admin.alter_topic_configs(alter("nix"))
            with pytest.raises(InvalidTopicConfigError):
                await admin.alter_topic_configs(alter("t", ConfigChange("segment.ms", ConfigOperation.SET, "1")))
            assert cluster[1].controller.topics.get("t") is before

    run(test)


def test_a_default_above_a_topics_replicas_means_all_of_them(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1, defaults=TopicConfig(min_insync_replicas=2)) as cluster:
            await cluster.create_topic("t")
            assert cluster[1].controller.topics.get("t").config.min_insync_replicas == 2
            await until(lambda: all(partitions_of(cluster, "t")))
            (partition,) = partitions_of(cluster, "t")
            assert [quorum.k for quorum in consensus_of(partition).state.answer_quorums] == [1]
            with pytest.raises(InvalidTopicConfigError, match=r"the topic has only 1 replica$"):
                await cluster[1].admin.create_topic(create_request("u", configs={"min.insync.replicas": "2"}))

    run(test)


def test_no_broker_gets_more_replicas_than_it_may_have(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            for node in cluster.nodes.values():
                node.admin.replicas_max = lambda: 4
            topic_id = await cluster.create_topic("t", 3, 3)
            for request in (create_request("u", 2, 3), create_request("u", 2, 3, validate_only=True)):
                with pytest.raises(InvalidPartitionsError, match="has 3 replicas and would get 2 more: it may have 4"):
                    await cluster[2].admin.create_topic(request)
            for validate_only in (True, False):
                with pytest.raises(InvalidPartitionsError, match=r"broker\.replicas\.max"):
                    await cluster[2].admin.create_partitions(grow("t", 5, validate_only=validate_only))
            await cluster[2].admin.create_partitions(grow("t", 4))
            await cluster.delete_topic(topic_id)
            await cluster.create_topic("u", 4, 3)

    run(test)
