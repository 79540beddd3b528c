"""Every version of every served key is answered by a real listener, and every other one ends the connection."""

import struct

import pytest
from wire_client import broker_in, fetch_request, produce_request

from kafka_api.handlers.registry import (
    ADVERTISED,
    ADVERTISED_WITH_TRANSACTIONS,
    API_VERSIONS_RANGE,
    OF_TRANSACTIONS,
    SERVED,
)
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import decode_response
from kafka_api.protocol.messages import (
    AlterConfigsRequest,
    ApiVersionsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListConfigResourcesRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetForLeaderEpochRequest,
    UpdateFeaturesRequest,
)
from tests.feature_levels import LIVING
from tests.unit.cluster.cluster_nodes import run
from tests.unit.model.record_batches import build_batch


def _request(key, version, topic_id):
    """A request about topic "t" as an ordinary client of that version sends it."""
    match key:
        case ApiKey.PRODUCE:
            return produce_request("t", build_batch(), topic_id=topic_id)
        case ApiKey.FETCH:
            return fetch_request("t", 0, topic_id=topic_id)
        case ApiKey.LIST_OFFSETS:
            asked = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
            return ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[asked])])
        case ApiKey.METADATA:
            return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])
        case ApiKey.OFFSET_FOR_LEADER_EPOCH:
            asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=1)
            topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=[asked])
            return OffsetForLeaderEpochRequest(topics=[topic])
        case ApiKey.DELETE_RECORDS:
            asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=-1)
            topic = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[asked])
            return DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
        case ApiKey.INIT_PRODUCER_ID:
            return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        case ApiKey.DESCRIBE_CLUSTER:
            return DescribeClusterRequest()
        case ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            return DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name="t")])
        case ApiKey.API_VERSIONS:
            return ApiVersionsRequest(client_software_name="test", client_software_version="1")
        case _:
            return _admin_request(key, version)


def _admin_request(key, version):
    match key:
        case ApiKey.CREATE_TOPICS:
            topic = CreateTopicsRequest.CreatableTopic(name=f"new{version}", num_partitions=1, replication_factor=1)
            return CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        case ApiKey.DELETE_TOPICS:
            state = DeleteTopicsRequest.DeleteTopicState(name="unknown")
            return DeleteTopicsRequest(topics=[state], topic_names=["unknown"], timeout_ms=5000)
        case ApiKey.DESCRIBE_CONFIGS:
            asked = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="t")
            return DescribeConfigsRequest(resources=[asked], include_synonyms=version >= 1)
        case ApiKey.ALTER_CONFIGS:
            asked = AlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="t", configs=[])
            return AlterConfigsRequest(resources=[asked])
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            change = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", value="5")
            asked = IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=2, resource_name="t", configs=[change]
            )
            return IncrementalAlterConfigsRequest(resources=[asked])
        case ApiKey.CREATE_PARTITIONS:
            topic = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=version + 2)
            return CreatePartitionsRequest(topics=[topic], timeout_ms=5000)
        case _:
            return _operator_request(key)


def _operator_request(key):
    match key:
        case ApiKey.DESCRIBE_PRODUCERS:
            topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0])
            return DescribeProducersRequest(topics=[topic])
        case ApiKey.ELECT_LEADERS:
            return ElectLeadersRequest(topic_partitions=None, timeout_ms=5000)
        case ApiKey.DESCRIBE_QUORUM:
            metadata = DescribeQuorumRequest.PartitionData(partition_index=0)
            topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[metadata])
            return DescribeQuorumRequest(topics=[topic])
        case ApiKey.LIST_CONFIG_RESOURCES:
            return ListConfigResourcesRequest()
        case ApiKey.DESCRIBE_LOG_DIRS:
            return DescribeLogDirsRequest(topics=None)
        case ApiKey.UPDATE_FEATURES:
            return UpdateFeaturesRequest(feature_updates=[])
    raise AssertionError(f"no request of {key}")


def _error(key, response):
    """The error code that belongs to the one thing asked for."""
    match key:
        case ApiKey.PRODUCE:
            return response.responses[0].partition_responses[0].error_code
        case ApiKey.FETCH:
            return response.error_code or response.responses[0].partitions[0].error_code
        case ApiKey.LIST_OFFSETS:
            return response.topics[0].partitions[0].error_code
        case ApiKey.METADATA | ApiKey.CREATE_TOPICS | ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            return response.topics[0].error_code
        case ApiKey.DESCRIBE_CONFIGS | ApiKey.CREATE_PARTITIONS | ApiKey.DESCRIBE_LOG_DIRS:
            return response.results[0].error_code
        case ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS:
            return response.responses[0].error_code
        case ApiKey.DELETE_TOPICS:
            return response.responses[0].error_code - 3  # unknown, as asked for
        case ApiKey.UPDATE_FEATURES:
            return response.error_code - 42  # invalid request: no feature is named
        case ApiKey.OFFSET_FOR_LEADER_EPOCH | ApiKey.DELETE_RECORDS | ApiKey.DESCRIBE_PRODUCERS:
            return response.topics[0].partitions[0].error_code
        case _:
            return response.error_code


RANGES = {int(key): (served.first_version, served.last_version) for key, served in SERVED.items()}
RANGES[int(ApiKey.API_VERSIONS)] = API_VERSIONS_RANGE
# A life of a group is what makes sense of these: groups/test_group_requests.py.
OF_GROUPS = {8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47}
# What these say instead: test_not_built.py; 45 and 46: test_partition_reassignments.py.
NOT_BUILT = {17, 29, 30, 31, 45, 46, 48, 49, 50, 51, 65, 66}


@pytest.mark.parametrize("key", sorted(RANGES.keys() - OF_GROUPS - NOT_BUILT), ids=lambda key: ApiKey(key).name)
def test_every_served_version_answers_without_an_error(tmp_path, key):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            topic_id = await client.create_topic("t")
            low, high = RANGES[key]
            for version in range(low, high + 1):
                response = await client.call(key, version, _request(key, version, topic_id))
                assert _error(key, response) == 0, f"version {version}"

    run(test)


@pytest.mark.parametrize("key", [*sorted(SERVED), *sorted(OF_TRANSACTIONS), 36, 999, -1])
def test_a_version_or_key_that_is_not_served_ends_the_connection_and_no_other(tmp_path, key):
    """Keys of transactions are not served where the cluster uses none; test_coordinated_transactions has their versions."""

    async def test():
        async with broker_in(tmp_path, features=LIVING) as broker:
            other = await broker.client()
            served = SERVED.get(key)
            for version in (-1, 0, 99) if served is None else (-1, served.first_version - 1, served.last_version + 1):
                client = await broker.client()
                client.write(struct.pack(">ihhihB", 11, key, version, 7, -1, 0))
                assert await client.is_closed()
            assert (await other.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0

    run(test)


@pytest.mark.parametrize("features", [None, LIVING], ids=["new cluster", "without transactions"])
@pytest.mark.parametrize("version", range(API_VERSIONS_RANGE[0], API_VERSIONS_RANGE[1] + 1))
def test_what_is_advertised_is_what_is_served(tmp_path, version, features):
    has_transactions = features is None

    async def test():
        async with broker_in(tmp_path, features=features) as broker:
            client = await broker.client()
            response = await client.call(ApiKey.API_VERSIONS, version, _request(ApiKey.API_VERSIONS, version, None))
            told = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
            assert told == (ADVERTISED_WITH_TRANSACTIONS if has_transactions else ADVERTISED)
            # librdkafka before 2.11.1 compresses for a broker only if it advertises Produce from 0 on.
            assert told.pop(ApiKey.PRODUCE) == (0, 13)
            of_transactions = {key: each[1:3] for key, each in OF_TRANSACTIONS.items()} if has_transactions else {}
            assert told == {key: span for key, span in RANGES.items() if key != ApiKey.PRODUCE} | of_transactions

    run(test)


@pytest.mark.parametrize("version", [5, 99, -1, 32767])
def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_format(tmp_path, version):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            # A header without tags, and a body that no known version has.
            frame = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, 3) + b"abc\0" + b"\xff" * 9
            client.write(struct.pack(">i", len(frame)) + frame)
            correlation_id, response = decode_response(ApiKey.API_VERSIONS, 0, await client.receive_frame())
            assert correlation_id == 77
            assert response.error_code == 35
            assert {each.api_key for each in response.api_keys} == set(ADVERTISED_WITH_TRANSACTIONS)
            # The connection goes on with a version both know.
            assert (await client.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())).error_code == 0

    run(test)
