"""Topics that are created because a client asks for them."""

import pytest
from wire_client import with_client

from kafka_api.auto_topics import _PENDING_MAX
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import MetadataRequest
from tests.unit.cluster.cluster_nodes import until


async def ask(client, *names, version=12, allowed=True):
    """Return the error codes."""
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=allowed)
    return [each.error_code for each in (await client.call(ApiKey.METADATA, version, request)).topics]


@pytest.mark.parametrize("version", [0, 1, 3, 4, 13])
def test_a_topic_that_is_asked_for_is_created_with_the_brokers_defaults(tmp_path, version):
    async def test(broker, client):
        assert await ask(client, "new", version=version) == [ErrorCode.LEADER_NOT_AVAILABLE]
        codes = [ErrorCode.LEADER_NOT_AVAILABLE]
        while codes != [0]:
            codes = await ask(client, "new", version=version)
            assert codes in ([0], [ErrorCode.LEADER_NOT_AVAILABLE])
        topic = broker.node.controller.topics.get("new")
        assert (len(topic.replicas), topic.replication_factor, topic.overrides) == (3, 1, {})
        assert (await client.produce("new", partition=2)).error_code in (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with_client(tmp_path, test, auto_create_topics=True, num_partitions=3)


@pytest.mark.parametrize("enabled", [False, True])
def test_nothing_is_created_for_who_does_not_want_it_or_where_it_is_not_enabled(tmp_path, enabled):
    async def test(broker, client):
        assert await ask(client, "new", allowed=not enabled) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert not broker.server._auto_topics._pending
        assert broker.node.controller.topics.all() == []

    with_client(tmp_path, test, auto_create_topics=enabled)


def test_bad_names_internal_names_and_ids_create_nothing(tmp_path):
    async def test(broker, client):
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes = await ask(client, "a b", "", "__consumer_offsets", "__transaction_state")
        assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2 + [unknown] * 2
        by_id = MetadataRequest.MetadataRequestTopic(name=None, topic_id="e" * 32)
        response = await client.call(ApiKey.METADATA, 12, MetadataRequest(topics=[by_id]))
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        everything = await client.call(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        assert everything.topics == []
        assert not broker.server._auto_topics._pending

    with_client(tmp_path, test, auto_create_topics=True)


def test_only_so_many_are_created_at_once(tmp_path):
    async def test(broker, client):
        names = [f"new{number}" for number in range(_PENDING_MAX + 10)]
        codes = await ask(client, *names)
        assert codes[:_PENDING_MAX] == [ErrorCode.LEADER_NOT_AVAILABLE] * _PENDING_MAX
        assert codes[_PENDING_MAX:] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 10
        await until(lambda: not broker.server._auto_topics._pending)
        assert [topic.name for topic in broker.node.controller.topics.all()] == sorted(names[:_PENDING_MAX])

    with_client(tmp_path, test, auto_create_topics=True)


def test_a_name_that_is_refused_is_not_tried_again_at_once(tmp_path):
    async def test(broker, client):
        pending = broker.server._auto_topics._pending
        for _ in range(3):
            assert await ask(client, "new") == [ErrorCode.LEADER_NOT_AVAILABLE]
            assert pending == {"new"}
        assert broker.node.controller.topics.all() == []

    with_client(tmp_path, test, auto_create_topics=True, default_replication_factor=2)
