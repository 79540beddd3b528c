"""CreateTopics and DeleteTopics."""

import pytest
from wire_client import CREATE_TOPICS, with_client

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from model.topic_config import TopicConfig


def asked(name, partitions=1, replication_factor=1, assignments=(), **configs):
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
            for index, nodes in assignments
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


async def create(client, *topics, validate_only=False, timeout_ms=10_000, version=CREATE_TOPICS):
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)
    return (await client.call(ApiKey.CREATE_TOPICS, version, request)).topics


async def delete(client, *states, version=6):
    request = DeleteTopicsRequest(topics=list(states), timeout_ms=10_000)
    if version < 6:
        request = DeleteTopicsRequest(topic_names=list(states), timeout_ms=10_000)
    return (await client.call(ApiKey.DELETE_TOPICS, version, request)).responses


def by_name(name):
    return DeleteTopicsRequest.DeleteTopicState(name=name)


def by_id(topic_id, name=None):
    return DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id)


REFUSED = {
    "a bad name": (asked("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name of nothing": (asked(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no partitions": (asked("t", 0), ErrorCode.INVALID_PARTITIONS),
    "fewer than none": (asked("t", -2), ErrorCode.INVALID_PARTITIONS),
    "too many partitions": (asked("t", 10_001), ErrorCode.INVALID_PARTITIONS),
    "no replicas": (asked("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "more replicas than brokers": (asked("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "an unknown key": (asked("t", no_such_key="1"), ErrorCode.INVALID_CONFIG),
    "a key without a value": (asked("t", segment_ms=None), ErrorCode.INVALID_CONFIG),
    "a value out of range": (asked("t", segment_bytes="1"), ErrorCode.INVALID_CONFIG),
    "a key of 30 kB": (asked("t", **{"k" * 30_000: "1"}), ErrorCode.INVALID_CONFIG),
    "a value of 30 kB": (asked("t", segment_ms="\1" * 30_000), ErrorCode.INVALID_CONFIG),
    "a name of 30 kB": (asked("\1" * 30_000), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "an unknown policy": (asked("t", cleanup_policy="compress"), ErrorCode.INVALID_CONFIG),
    "a flush by number": (asked("t", flush_messages="1"), ErrorCode.INVALID_CONFIG),
    "more in-sync replicas than replicas": (asked("t", min_insync_replicas="2"), ErrorCode.INVALID_CONFIG),
    "an existing name": (asked("taken"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "assignment and partitions": (asked("t", 1, -1, [(0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "assignment and factor": (asked("t", -1, 1, [(0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "assignment with a gap": (asked("t", -1, -1, [(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a partition assigned twice": (asked("t", -1, -1, [(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "an unknown broker": (asked("t", -1, -1, [(0, [7])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "a broker named twice": (asked("t", -1, -1, [(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "an assignment to nobody": (asked("t", -1, -1, [(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
}


@pytest.mark.parametrize("validate_only", [False, True])
def test_every_refusal_has_its_code_and_words_and_creates_nothing(tmp_path, validate_only):
    async def test(broker, client):
        await client.create_topic("taken")
        for what, (topic, code) in REFUSED.items():
            for version in (2, 7):
                (result,) = await create(client, topic, validate_only=validate_only, version=version)
                assert (result.error_code, result.name) == (code, topic.name), what
                assert result.error_message, what
        assert [topic.name for topic in broker.node.controller.topics.all()] == ["taken"]

    with_client(tmp_path, test)


def test_a_refused_topic_does_not_keep_the_others_from_being_created(tmp_path):
    async def test(broker, client):
        results = await create(client, asked("a"), asked("b", 0), asked("c", 3))
        assert [result.error_code for result in results] == [0, ErrorCode.INVALID_PARTITIONS, 0]
        assert [(result.num_partitions, result.replication_factor) for result in (results[0], results[2])] == [
            (1, 1),
            (3, 1),
        ]
        assert results[2].topic_id == broker.node.controller.topics.get("c").topic_id

    with_client(tmp_path, test)


def test_names_that_differ_in_dots_and_underscores_only_collide(tmp_path):
    async def test(broker, client):
        results = await create(client, asked("a.b_c"), asked("a.bc"))
        assert [result.error_code for result in results] == [0, 0]
        (result,) = await create(client, asked("a_b.c"))
        assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert "'a.b_c'" in result.error_message

    with_client(tmp_path, test)


def test_a_topic_named_twice_is_created_not_even_once(tmp_path):
    async def test(broker, client):
        results = await create(client, asked("a"), asked("a", 2), asked("b"))
        assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, 0]
        assert broker.node.controller.topics.get("a") is None

    with_client(tmp_path, test)


def test_only_checking_says_what_would_be_created(tmp_path):
    async def test(broker, client):
        (result,) = await create(client, asked("t", 4, segment_ms="5000"), validate_only=True)
        assert (result.error_code, result.num_partitions) == (0, 4)
        assert {each.name: each.value for each in result.configs}["segment.ms"] == "5000"
        assert broker.node.controller.topics.get("t") is None

    with_client(tmp_path, test)


def test_the_answer_shows_the_effective_configuration_and_where_it_comes_from(tmp_path):
    async def test(broker, client):
        (result,) = await create(client, asked("t", max_message_bytes="777"))
        shown = {each.name: (each.value, each.config_source) for each in result.configs}
        assert shown["max.message.bytes"] == ("777", 1)
        assert shown["segment.bytes"] == ("2000000", 4), "the broker's own default"
        assert shown["segment.ms"] == ("604800000", 5)
        config = broker.node.controller.topics.get("t").config
        assert {name: value for name, (value, _) in shown.items()} == config.as_strings()

    with_client(tmp_path, test, defaults=TopicConfig(segment_bytes=2_000_000))


def test_what_is_left_open_comes_from_the_brokers_options(tmp_path):
    async def test(broker, client):
        (result,) = await create(client, asked("t", -1, -1))
        assert (result.num_partitions, result.replication_factor) == (5, 1)

    with_client(tmp_path, test, num_partitions=5)


def test_an_assignment_by_hand_is_taken_in_any_order(tmp_path):
    async def test(broker, client):
        (result,) = await create(client, asked("t", -1, -1, [(1, [1]), (0, [1])]))
        assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)

    with_client(tmp_path, test)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_to_create_is_a_timeout(tmp_path, timeout_ms):
    async def test(broker, client):
        (result,) = await create(client, asked("t"), timeout_ms=timeout_ms)
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT

    with_client(tmp_path, test)


def test_topics_are_deleted_by_name_and_by_id(tmp_path):
    async def test(broker, client):
        ids = {name: await client.create_topic(name) for name in "abc"}
        first, second, third, fourth = await delete(
            client, by_name("a"), by_id(ids["b"]), by_name("unknown"), by_id("e" * 32)
        )
        assert (first.error_code, first.name, first.topic_id) == (0, "a", ids["a"])
        assert (second.error_code, second.name, second.topic_id) == (0, "b", ids["b"])
        assert (third.error_code, third.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "unknown")
        assert (fourth.error_code, fourth.name, fourth.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, "e" * 32)
        (again,) = await delete(client, by_name("a"))
        assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (old,) = await delete(client, "c", version=1)
        assert old.error_code == 0
        assert broker.node.controller.topics.all() == []

    with_client(tmp_path, test)


def test_a_topic_named_by_name_and_id_at_once_is_not_deleted(tmp_path):
    async def test(broker, client):
        topic_id = await client.create_topic("t")
        for state in (by_id(topic_id, "t"), by_id("e" * 32, "t"), by_id(topic_id, "other")):
            (result,) = await delete(client, state)
            assert result.error_code == ErrorCode.INVALID_REQUEST
        assert broker.node.controller.topics.get("t")

    with_client(tmp_path, test)
