"""What brokers keep in a topic: clients read it, and neither write, grow nor create it by asking."""

import pytest
from wire_client import produce_request, with_client

from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.telemetry.telemetry_topic import TELEMETRY_TOPIC
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import CreatePartitionsRequest, MetadataRequest
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import create_request, until
from tests.unit.model.record_batches import build_batch


def metadata(name):
    return MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)


@pytest.mark.parametrize("name", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TELEMETRY_TOPIC])
def test_clients_neither_make_nor_write_nor_grow_what_brokers_keep(tmp_path, name):
    async def test(broker, client):
        answer = await client.call(ApiKey.METADATA, 9, metadata(name))
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await broker.node.admin.create_topic(create_request(name, 3))
        topic = broker.node.controller.topics.get(name)
        await until(lambda: all(broker.node.leadership.leader_of(topic.group(number)) for number in range(3)))
        (told,) = (await client.call(ApiKey.METADATA, 9, metadata(name))).topics
        # Spark's Kafka source reads nothing that is called internal.
        assert (told.error_code, told.is_internal, len(told.partitions)) == (0, name != TELEMETRY_TOPIC, 3)
        written = await client.call(ApiKey.PRODUCE, 7, produce_request(name, build_batch()))
        assert written.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        grown = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=9)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=5000)
        (result,) = (await client.call(ApiKey.CREATE_PARTITIONS, 0, request)).results
        assert result.error_code == ErrorCode.INVALID_PARTITIONS

    with_client(tmp_path, test, auto_create_topics=True)


def test_only_what_the_cluster_cannot_work_without_has_the_reserves(tmp_path):
    async def test(broker, client):
        reserved = {}
        for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TELEMETRY_TOPIC, "orders"):
            await broker.node.admin.create_topic(create_request(name))
            group = broker.node.controller.topics.get(name).group(0)
            await until(lambda group=group: broker.node.partitions.get(group))
            reserved[name] = consensus_of(broker.node.partitions.get(group))._context.is_internal
        assert reserved == {OFFSETS_TOPIC: True, TRANSACTIONS_TOPIC: True, TELEMETRY_TOPIC: False, "orders": False}

    with_client(tmp_path, test)
