"""AlterPartitionReassignments, ListPartitionReassignments and Metadata of partitions that move, on the wire."""

import asyncio

from wire_client import broker_in

import cluster.founding
import cluster.node_options
from cluster.commands import AdmitBroker, BrokerRecord, RegisterBroker, RetireDirectory, SetBrokerState
from cluster.founding_words import found
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    MetadataRequest,
)
from model.features import told_features
from raftka.kafka.one_broker import ask
from raftka.kafka.wire.reassignment_requests import Reassignment, Reassignments, list_reassignments
from tests.unit.cluster.cluster_nodes import run, until

_Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
_Partition = AlterPartitionReassignmentsRequest.ReassignablePartition
_Asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics


def with_broker(path, test):
    async def whole():
        async with broker_in(path) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=2)
            await test(broker, client)

    run(whole)


async def alter(client, *moves, topic="t", version=1, may_change_count=True):
    """Return the whole response's error, and {partition: error} with its words."""
    partitions = [_Partition(partition_index=number, replicas=target) for number, target in moves]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=5000,
        allow_replication_factor_change=may_change_count,
        topics=[_Topic(name=topic, partitions=partitions)],
    )
    answer = await client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, request)
    found = {each.partition_index: each.error_code for topic in answer.responses for each in topic.partitions}
    assert all(
        bool(each.error_code) == bool(each.error_message) for topic in answer.responses for each in topic.partitions
    )
    return answer.error_code, found


async def listed(client, topics=None):
    """What is being moved, as {(topic, partition): (replicas, adding, removing)}."""
    answer = await client.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest(topics=topics))
    assert answer.error_code == 0
    return {
        (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    }


async def described(client, number=0):
    """Replicas and in-sync set of a partition, as Metadata tells them."""
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
    answer = await client.call(ApiKey.METADATA, 12, request)
    partition = next(each for each in answer.topics[0].partitions if each.partition_index == number)
    return partition.replica_nodes, partition.isr_nodes


async def second_broker(broker):
    """A broker that is known and never there."""
    record = BrokerRecord(2, "b" * 32, "127.0.0.1", 1, "r", 1, "a", 2, told_features())
    deadline = asyncio.get_running_loop().time() + 5
    await broker.node.controller.propose(AdmitBroker(2, "b" * 32, "r", 1), deadline)
    await broker.node.controller.propose(RegisterBroker(record), deadline)


def test_where_the_cluster_lacks_the_feature_the_whole_request_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.founding, "found", lambda members, _: found(members))

    async def test(_, client):
        for version in (0, 1):
            assert await alter(client, (0, [1]), version=version) == (35, {0: ErrorCode.UNSUPPORTED_VERSION})

    with_broker(tmp_path, test)


def test_each_partition_has_its_own_error(tmp_path):
    async def test(broker, client):
        await second_broker(broker)
        moves = [(0, [1]), (1, [1, 1]), (2, [1]), (3, None)]
        assert await alter(client, *moves, version=0) == (0, {0: 0, 1: 39, 2: 3, 3: 3})
        assert await alter(client, (0, None), (1, [])) == (0, {0: 85, 1: 39})
        assert await alter(client, (0, [9])) == (0, {0: 39})
        assert await alter(client, (0, [1]), (0, [1])) == (0, {0: 39})
        assert await alter(client, (0, [1, 2]), may_change_count=False) == (0, {0: 38})
        assert await alter(client, (0, [1]), topic="unknown") == (0, {0: 3})
        assert await listed(client) == {}
        deadline = asyncio.get_running_loop().time() + 5
        for state in ("draining", "decommissioning"):
            await broker.node.controller.propose(SetBrokerState(2, state), deadline)
            assert await alter(client, (0, [2]), (1, [1, 2])) == (0, {0: 39, 1: 39})
        await broker.node.controller.propose(RetireDirectory(2, "b" * 32), deadline)
        assert await alter(client, (0, [1, 2])) == (0, {0: 39})
        assert broker.node.controller.topics.get("t").placements == {}

    with_broker(tmp_path, test)


def test_a_move_is_listed_and_described_until_it_is_finished_or_cancelled(tmp_path):
    async def test(broker, client):
        await second_broker(broker)
        # A version 0 knows no such field: the number may change.
        assert await alter(client, (0, [2, 1]), version=0) == (0, {0: 0})
        moving = {("t", 0): ([1, 2], [2], [])}
        assert await listed(client) == moving
        # What `raftka cluster health` asks.
        asked = list_reassignments(1000)
        found = await asyncio.to_thread(ask, 1, f"127.0.0.1:{broker.port}", asked)
        assert found == Reassignments(0, [Reassignment("t", 0, [1, 2], [2], [])])
        assert await listed(client, [_Asked(name="t", partition_indexes=[0, 1, 7])]) == moving
        assert await listed(client, [_Asked(name="t", partition_indexes=[1]), _Asked(name="u")]) == {}
        assert await described(client) == ([1, 2], [1])
        assert await described(client, 1) == ([1], [1])
        assert await alter(client, (0, None)) == (0, {0: 0})
        assert await listed(client) in ({}, {("t", 0): ([1, 2], [], [2])})
        table = broker.node.controller.topics
        await until(lambda: not table.is_moving)
        assert await listed(client) == {}
        assert await described(client) == ([1], [1])
        assert await alter(client, (0, None)) == (0, {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS})

    with_broker(tmp_path, test)
