"""Requests that list thousands of things: other tasks run meanwhile, and answers that nobody takes are few."""

import asyncio

import pytest
from wire_client import broker_in

from kafka_api.handlers.in_steps import ELEMENTS_PER_STEP, in_steps
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import (
    AlterConfigsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
)
from tests.unit.cluster.cluster_nodes import run, until

MIB = 1024 * 1024
COUNT = 10_000
NAMES = [f"n{number}" for number in range(COUNT)]


def list_offsets():
    """The same partition many times: a broker that leads it looks each up."""
    asked = [ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)] * COUNT
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=asked)])


REQUESTS = {
    (ApiKey.LIST_OFFSETS, 6): list_offsets(),
    (ApiKey.METADATA, 9): MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in NAMES]),
    (ApiKey.FIND_COORDINATOR, 4): FindCoordinatorRequest(coordinator_keys=NAMES),
    (ApiKey.DESCRIBE_GROUPS, 5): DescribeGroupsRequest(groups=NAMES),
    (ApiKey.DELETE_GROUPS, 2): DeleteGroupsRequest(groups_names=NAMES),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 3): OffsetForLeaderEpochRequest(
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic="t",
                partitions=[OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)] * COUNT,
            )
        ]
    ),
    (ApiKey.DELETE_RECORDS, 2): DeleteRecordsRequest(
        timeout_ms=10_000,
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(
                name="unknown",
                partitions=[
                    DeleteRecordsRequest.DeleteRecordsPartition(partition_index=number, offset=0)
                    for number in range(COUNT)
                ],
            )
        ],
    ),
    (ApiKey.ALTER_CONFIGS, 2): AlterConfigsRequest(
        resources=[
            AlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in NAMES
        ]
    ),
    (ApiKey.DESCRIBE_CONFIGS, 4): DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name=name) for name in NAMES
        ]
    ),
}


def test_other_tasks_run_between_the_steps():
    async def test():
        done, turns = 0, []

        async def other():
            for _ in range(3):
                turns.append(done)
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        async for number in in_steps(range(250)):
            assert number == done
            done += 1
        await task
        assert done == 250
        assert turns[:2] == [ELEMENTS_PER_STEP, 2 * ELEMENTS_PER_STEP]

    asyncio.run(test())


@pytest.mark.parametrize(("key", "version"), REQUESTS, ids=lambda each: getattr(each, "name", str(each)))
def test_a_request_of_thousands_does_not_stop_the_loop(tmp_path, key, version):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            turns = 0

            async def other():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            await client.call(key, version, REQUESTS[key, version])
            task.cancel()
            assert turns > COUNT // ELEMENTS_PER_STEP

    run(test)


def test_answers_that_nobody_takes_are_few_and_those_behind_them_come_in_order(tmp_path):
    async def test():
        async with broker_in(tmp_path, slow_client_timeout=20.0) as broker:
            client = await broker.client()
            await client.create_topic("t")
            (connection,) = broker.server._connections
            client._reader._transport.pause_reading()
            asked = [MetadataRequest.MetadataRequestTopic(name=f"{number:0100}") for number in range(COUNT)]
            sent = [client.send(ApiKey.METADATA, 9, MetadataRequest(topics=asked)) for _ in range(20)]
            # More than any kernel's buffers: what is over stays here.
            await until(connection._has_answers_enough)
            for _ in range(200):
                await asyncio.sleep(0)
                assert connection._answer_bytes < 4 * MIB
                assert len(connection._answers) <= 2
            client._reader._transport.resume_reading()
            assert [(await client.receive())[0] for _ in sent] == sent
            await until(lambda: connection._answer_bytes == 0)

    run(test)
