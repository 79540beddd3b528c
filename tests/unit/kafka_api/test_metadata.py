"""Metadata, DescribeTopicPartitions and DescribeCluster."""

import asyncio

import pytest
from wire_client import with_client

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeClusterRequest, DescribeTopicPartitionsRequest, MetadataRequest

NO_ID = "0" * 32


async def metadata(client, *names, version=12, everything=False):
    topics = None if everything else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return await client.call(ApiKey.METADATA, version, MetadataRequest(topics=topics))


async def describe(client, *names, limit=2000, cursor=None):
    position = cursor and DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    request = DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=position,
    )
    response = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    told = [(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics]
    after = response.next_cursor
    return told, after and (after.topic_name, after.partition_index)


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_all_some_or_no_topics(tmp_path, version):
    async def test(broker, client):
        topic_id = await client.create_topic("a", 2)
        await client.create_topic("b")
        response = await metadata(client, version=version, everything=version > 0)
        assert [topic.name for topic in response.topics] == ["a", "b"]
        (host,) = response.brokers
        assert (host.node_id, host.host, host.port) == (1, "127.0.0.1", broker.port)
        assert version == 0 or response.controller_id == 1
        if version >= 2:
            assert response.cluster_id == broker.node.cluster.cluster_id
        if version > 0:
            assert (await metadata(client, version=version)).topics == []
        some = (await metadata(client, "b", "nix", "a", "no good", version=version)).topics
        assert [topic.error_code for topic in some] == [0, 3, 0, 17]
        assert [topic.name for topic in some] == ["b", "nix", "a", "no good"]
        assert version < 10 or some[2].topic_id == topic_id
        for number, partition in enumerate(sorted(some[2].partitions, key=lambda each: each.partition_index)):
            assert (partition.partition_index, partition.leader_id, partition.error_code) == (number, 1, 0)
            assert (list(partition.replica_nodes), list(partition.isr_nodes)) == ([1], [1])

    with_client(tmp_path, test)


@pytest.mark.parametrize("version", range(14))
def test_a_topic_that_is_named_twice_is_told_once(tmp_path, version):
    async def test(broker, client):
        await client.create_topic("a")
        response = await metadata(client, "a", "nix", "a", "nix", version=version)
        assert [topic.name for topic in response.topics] == ["a", "nix"]

    with_client(tmp_path, test)


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_by_id(tmp_path, version):
    async def test(broker, client):
        topic_id = await client.create_topic("a")
        topics = [
            MetadataRequest.MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, "e" * 32, NO_ID)
        ]
        response = await client.call(ApiKey.METADATA, version, MetadataRequest(topics=topics))
        assert [topic.error_code for topic in response.topics] == [
            0,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        assert [topic.name for topic in response.topics] == ["a", None, None]
        assert [topic.topic_id for topic in response.topics] == [topic_id, "e" * 32, NO_ID]

    with_client(tmp_path, test)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_in_a_version_whose_answer_must_have_names_end_the_connection_and_nothing_else(tmp_path, version):
    async def test(broker, client):
        other = await broker.client()
        topic = MetadataRequest.MetadataRequestTopic(name=None, topic_id="e" * 32)
        client.send(ApiKey.METADATA, version, MetadataRequest(topics=[topic]))
        assert await client.is_closed()
        assert (await metadata(other)).topics == []

    with_client(tmp_path, test)


def test_partitions_are_described_in_order_of_name_whatever_was_asked_first(tmp_path):
    async def test(broker, client):
        await client.create_topic("b", 2)
        await client.create_topic("a", 1)
        assert await describe(client) == ([("a", [0]), ("b", [0, 1])], None)
        assert await describe(client, "b", "nix", "b") == ([("b", [0, 1]), ("nix", [])], None)

    with_client(tmp_path, test)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6, 7, 0, -5])
def test_following_the_cursor_leads_through_every_partition_once(tmp_path, limit):
    async def test(broker, client):
        for name, partitions in (("a", 3), ("b", 1), ("c", 3)):
            await client.create_topic(name, partitions)
        seen, cursor = [], None
        async with asyncio.timeout(10):
            while True:
                told, cursor = await describe(client, limit=limit, cursor=cursor)
                page = [(name, number) for name, numbers in told for number in numbers]
                assert len(page) <= max(limit, 1)
                seen += page
                if cursor is None:
                    break
        assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1), ("c", 2)]

    with_client(tmp_path, test)


@pytest.mark.parametrize(
    ("cursor", "expected"),
    [
        (("a", 99), [("a", []), ("b", [0])]),
        (("a", -9), [("a", [0, 1]), ("b", [0])]),
        (("aa", 1), [("b", [0])]),
        (("z", 0), []),
    ],
)
def test_a_cursor_to_what_is_gone_goes_on_behind_it(tmp_path, cursor, expected):
    async def test(broker, client):
        await client.create_topic("a", 2)
        await client.create_topic("b")
        assert await describe(client, cursor=cursor) == (expected, None)

    with_client(tmp_path, test)


def test_the_cluster_is_described_and_its_controllers_are_not(tmp_path):
    async def test(broker, client):
        response = await client.call(ApiKey.DESCRIBE_CLUSTER, 2, DescribeClusterRequest(endpoint_type=1))
        assert response.error_code == 0
        assert (response.cluster_id, response.controller_id) == (broker.node.cluster.cluster_id, 1)
        assert [(each.broker_id, each.port) for each in response.brokers] == [(1, broker.port)]
        for endpoint_type in (0, 2, -1):
            request = DescribeClusterRequest(endpoint_type=endpoint_type)
            response = await client.call(ApiKey.DESCRIBE_CLUSTER, 2, request)
            assert response.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    with_client(tmp_path, test)


def test_a_broker_that_has_lost_its_controller_sends_clients_to_another(tmp_path):
    async def test(broker, client):
        controller = broker.node.controller
        await client.create_topic("a")
        controller.consensus.step_down("the others are cut off")
        controller._leaderless_since = asyncio.get_running_loop().time() - 0.4
        assert [topic.name for topic in (await metadata(client, "a")).topics] == ["a"], "an election is no isolation"
        controller._leaderless_since -= 0.2
        client.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        assert await client.is_closed()

    with_client(tmp_path, test)


def test_lists_of_eligible_leaders_are_empty_and_never_null(tmp_path):
    async def test(_, client):
        await client.create_topic("t")
        request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name="t")])
        (topic,) = (await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)).topics
        assert (topic.partitions[0].eligible_leader_replicas, topic.partitions[0].last_known_elr) == ([], [])

    with_client(tmp_path, test)
