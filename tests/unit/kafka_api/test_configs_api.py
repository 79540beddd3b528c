"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and CreatePartitions."""

import pytest
from wire_client import with_client

from kafka_api.described_configs import broker_config
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from model.config_definition import ConfigType
from model.topic_config import TOPIC_CONFIGS, TopicConfig
from tests.engine import consensus_of
from tests.feature_levels import LEVEL_0, LIVING
from tests.unit.cluster.cluster_nodes import until
from tests.unit.model.record_batches import build_batch

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


async def describe(client, resource_type, name, keys=None, version=4, **options):
    """Return the result of one resource."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], **options)
    (result,) = (await client.call(ApiKey.DESCRIBE_CONFIGS, version, request)).results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    return result


async def values_of(client, name):
    return {each.name: each.value for each in (await describe(client, TOPIC, name)).configs}


async def change(client, name, *changes, resource_type=TOPIC, validate_only=False):
    """Change keys, given as (key, operation, value)."""
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses
    assert bool(result.error_code) == bool(result.error_message)
    return result


async def replace(client, name, *, resource_type=TOPIC, validate_only=False, **configs):
    """Replace all that is set."""
    given = [
        AlterConfigsRequest.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    ]
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=given)
    request = AlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await client.call(ApiKey.ALTER_CONFIGS, 2, request)).responses
    return result


async def grow(client, name, count, *assignments, validate_only=False, timeout_ms=10_000):
    topic = CreatePartitionsRequest.CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=[CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=list(each)) for each in assignments]
        or None,
    )
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=validate_only)
    (result,) = (await client.call(ApiKey.CREATE_PARTITIONS, 3, request)).results
    return result


def test_a_topic_is_described_with_types_words_and_where_each_value_comes_from(tmp_path):
    async def test(broker, client):
        await client.create_topic("t", segment_ms="5000", max_message_bytes="777")
        result = await describe(client, TOPIC, "t", include_synonyms=True, include_documentation=True)
        told = {each.name: each for each in result.configs}
        assert list(told) == sorted(TOPIC_CONFIGS)
        for key, definition in TOPIC_CONFIGS.items():
            each = told[key]
            assert (each.config_type, each.documentation) == (definition.kind, definition.doc)
            assert not each.read_only
            assert not each.is_sensitive
            assert (each.synonyms[0].value, each.synonyms[0].source) == (each.value, each.config_source)
            assert each.synonyms[-1].source == 5
        synonyms = [(each.name, each.value, each.source) for each in told["max.message.bytes"].synonyms]
        assert synonyms == [
            ("max.message.bytes", "777", 1),
            ("message.max.bytes", "2000", 4),
            ("message.max.bytes", "1048588", 5),
        ]
        assert (told["retention.ms"].value, told["retention.ms"].config_source) == ("604800000", 5)

    with_client(tmp_path, test, defaults=TopicConfig(max_message_bytes=2000))


def test_synonyms_and_words_are_told_only_to_who_wants_them(tmp_path):
    async def test(broker, client):
        await client.create_topic("t")
        for version in (1, 2, 3, 4):
            for each in (await describe(client, TOPIC, "t", version=version)).configs:
                assert each.synonyms == []
                assert version < 3 or each.documentation is None

    with_client(tmp_path, test)


def test_only_the_keys_that_are_named_are_told_and_none_named_means_all(tmp_path):
    async def test(broker, client):
        await client.create_topic("t")
        result = await describe(client, TOPIC, "t", ["retention.ms", "nonsense", "segment.ms"])
        assert [each.name for each in result.configs] == ["retention.ms", "segment.ms"]
        assert len((await describe(client, TOPIC, "t", [])).configs) == len(TOPIC_CONFIGS)

    with_client(tmp_path, test)


OPTIONS = (
    broker_config("node.id", ConfigType.INT, "Number.", "1", None),
    broker_config("log.level", ConfigType.STRING, "How much.", "INFO", "INFO"),
    broker_config("cluster.secret.file", ConfigType.STRING, "Where.", None, None),
)


def test_a_broker_describes_itself_read_only(tmp_path):
    async def test(broker, client):
        result = await describe(client, BROKER, "1", include_synonyms=True)
        assert [(each.name, each.value, each.config_source, each.read_only) for each in result.configs] == [
            ("cluster.secret.file", None, 5, True),
            ("log.level", "INFO", 5, True),
            ("node.id", "1", 4, True),
        ]
        assert (await describe(client, BROKER, "")).configs == []

    with_client(tmp_path, test, broker_configs=OPTIONS)


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "nix", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER, "x" * 30_000, ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (LOGGER, "one", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
        (-128, "t", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_has_no_configuration_is_refused_by_all_three(tmp_path, resource_type, name, code):
    async def test(broker, client):
        described = await describe(client, resource_type, name)
        assert (described.error_code, described.configs) == (code, [])
        assert described.error_message
        assert (await change(client, name, resource_type=resource_type)).error_code == code
        assert (await replace(client, name, resource_type=resource_type)).error_code == code

    with_client(tmp_path, test)


@pytest.mark.parametrize("resource_type", [CLIENT_METRICS, GROUP])
def test_a_group_and_client_metrics_show_that_nothing_is_set_and_take_nothing(tmp_path, resource_type):
    async def test(broker, client):
        described = await describe(client, resource_type, "g")
        assert (described.error_code, described.configs) == (0, [])
        for refused in (
            await change(client, "g", ("interval.ms", SET, "1000"), resource_type=resource_type),
            await replace(client, "g", resource_type=resource_type, interval_ms="1000"),
        ):
            assert refused.error_code == ErrorCode.INVALID_REQUEST
            assert "only topics (2) and brokers (4) have configurations" in refused.error_message

    with_client(tmp_path, test)


def test_a_resource_named_twice_is_refused(tmp_path):
    async def test(broker, client):
        await client.create_topic("t")
        resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=TOPIC, resource_name="t")
        response = await client.call(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource, resource]))
        assert [each.error_code for each in response.results] == [0, ErrorCode.INVALID_REQUEST]
        change_of = AlterConfigsRequest.AlterableConfig(name="retention.ms", value="5")
        both = [
            AlterConfigsRequest.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[change_of])
        ] * 2
        response = await client.call(ApiKey.ALTER_CONFIGS, 2, AlterConfigsRequest(resources=both))
        assert [each.error_code for each in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert broker.node.controller.topics.get("t").overrides == {}

    with_client(tmp_path, test)


@pytest.mark.parametrize("name", ["1", ""])
def test_a_brokers_configuration_cannot_be_changed_below_the_level_of_the_feature(tmp_path, name):
    async def test(broker, client):
        for key in ("log.retention.ms", "nonsense", "k" * 20_000):
            result = await change(client, name, (key, SET, "5"), resource_type=BROKER)
            assert result.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert "raftka.membership at level 1" in result.error_message

    with_client(tmp_path, test, broker_configs=OPTIONS, features=LEVEL_0)


def test_keys_are_set_and_deleted_one_by_one(tmp_path):
    async def test(broker, client):
        await client.create_topic("t", segment_ms="5000")
        changes = [("retention.ms", SET, "7"), ("segment.ms", DELETE, None), ("cleanup.policy", APPEND, "delete")]
        assert (await change(client, "t", *changes, validate_only=True)).error_code == 0
        assert (await values_of(client, "t"))["segment.ms"] == "5000"
        assert (await change(client, "t", *changes)).error_code == 0
        values = await values_of(client, "t")
        assert (values["retention.ms"], values["segment.ms"]) == ("7", "604800000")
        assert broker.node.controller.topics.get("t").overrides == {"retention.ms": "7", "cleanup.policy": "delete"}

    with_client(tmp_path, test)


def test_the_older_request_replaces_all_that_is_set(tmp_path):
    async def test(broker, client):
        await client.create_topic("t", segment_ms="5000", retention_ms="7")
        assert (await replace(client, "t", retention_bytes="9", validate_only=True)).error_code == 0
        assert len(broker.node.controller.topics.get("t").overrides) == 2
        assert (await replace(client, "t", retention_bytes="9")).error_code == 0
        assert broker.node.controller.topics.get("t").overrides == {"retention.bytes": "9"}

    with_client(tmp_path, test)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", APPEND, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 4, "5")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", -1, "5")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "-2")], ErrorCode.INVALID_CONFIG),
        ([("segment.ms", SET, "5000"), ("nonsense", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", SET, "compress")], ErrorCode.INVALID_CONFIG),
        ([("cleanup.policy", APPEND, "compress")], ErrorCode.INVALID_CONFIG),
        ([("min.insync.replicas", SET, "2")], ErrorCode.INVALID_CONFIG),
        ([("k" * 30_000, SET, "2")], ErrorCode.INVALID_CONFIG),
        ([("segment.ms", SET, "\1" * 30_000)], ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_refused_change_changes_nothing_at_all(tmp_path, changes, code):
    async def test(broker, client):
        await client.create_topic("t", segment_ms="7000")
        for validate_only in (True, False):
            result = await change(client, "t", *changes, validate_only=validate_only)
            assert result.error_code == code
            assert len(result.error_message) < 1000
        assert broker.node.controller.topics.get("t").overrides == {"segment.ms": "7000"}

    with_client(tmp_path, test)


@pytest.mark.parametrize(
    "changes",
    [[("cleanup.policy", SET, "compact")], [("cleanup.policy", SUBTRACT, "delete")]],
    ids=["compact", "empty"],
)
def test_below_the_level_of_compaction_topics_only_delete(tmp_path, changes):
    async def test(broker, client):
        await client.create_topic("t", segment_ms="7000")
        result = await change(client, "t", *changes)
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert "raftka.compaction" in result.error_message
        assert broker.node.controller.topics.get("t").overrides == {"segment.ms": "7000"}

    with_client(tmp_path, test, features=LIVING)


def test_a_changed_bound_holds_for_the_next_batch(tmp_path):
    async def test(broker, client):
        await client.create_topic("t")
        batch = build_batch(b"x" * 2000)
        assert (await client.produce("t", batch)).error_code == 0
        assert (await change(client, "t", ("max.message.bytes", SET, "1000"))).error_code == 0
        assert (await client.produce("t", batch)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await change(client, "t", ("max.message.bytes", DELETE, None))).error_code == 0
        assert (await client.produce("t", batch)).error_code == 0

    with_client(tmp_path, test)


def test_a_changed_segment_size_holds_for_the_running_log(tmp_path):
    async def test(broker, client):
        await client.create_topic("t")
        batch = build_batch(b"x" * 400_000)
        segments = consensus_of(broker.partition("t")).log._segments

        async def fill():
            for _ in range(6):
                assert (await client.produce("t", batch)).error_code == 0
            return len(segments)

        assert await fill() == 1
        assert (await change(client, "t", ("segment.bytes", SET, "1048576"))).error_code == 0
        assert await fill() >= 3
        assert (await change(client, "t", ("segment.bytes", DELETE, None))).error_code == 0
        grown = len(segments)
        assert await fill() == grown

    with_client(tmp_path, test)


def test_new_partitions_can_be_used_as_soon_as_they_are_answered(tmp_path):
    async def test(broker, client):
        await client.create_topic("t")
        await client.produce("t")
        assert (await grow(client, "t", 4, validate_only=True)).error_code == 0
        assert len(broker.node.controller.topics.get("t").replicas) == 1
        assert (await grow(client, "t", 3)).error_code == 0
        assert (await grow(client, "t", 4, [1])).error_code == 0
        for partition in range(4):
            assert (await client.produce("t", partition=partition)).base_offset == (1 if partition == 0 else 0)
        assert (await client.produce("t", partition=4)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_client(tmp_path, test)


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("nix", 5, [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 2, [], ErrorCode.INVALID_PARTITIONS),
        ("t", 1, [], ErrorCode.INVALID_PARTITIONS),
        ("t", -1, [], ErrorCode.INVALID_PARTITIONS),
        ("t", 2**31 - 1, [], ErrorCode.INVALID_PARTITIONS),
        ("t", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[1, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_refused_growth_has_its_code_and_words(tmp_path, name, count, assignments, code):
    async def test(broker, client):
        await client.create_topic("t", 2)
        for validate_only in (True, False):
            result = await grow(client, name, count, *assignments, validate_only=validate_only)
            assert (result.name, result.error_code) == (name, code)
            assert result.error_message
        assert len(broker.node.controller.topics.get("t").replicas) == 2
        assert (await grow(client, "t", 3, timeout_ms=0)).error_code == ErrorCode.REQUEST_TIMED_OUT

    with_client(tmp_path, test)


def test_a_topic_named_twice_does_not_grow(tmp_path):
    async def test(broker, client):
        await client.create_topic("t")
        await client.create_topic("u")
        topics = [
            CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count)
            for name, count in (("t", 2), ("t", 3), ("u", 2))
        ]
        response = await client.call(
            ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=topics, timeout_ms=5000)
        )
        assert [each.error_code for each in response.results] == [ErrorCode.INVALID_REQUEST] * 2 + [0]
        await until(lambda: len(broker.node.controller.topics.get("u").replicas) == 2)
        assert len(broker.node.controller.topics.get("t").replicas) == 1

    with_client(tmp_path, test)


@pytest.mark.parametrize(
    ("version", "types", "told"),
    [
        (0, [], []),
        (1, [], [(TOPIC, "a"), (TOPIC, "b"), (BROKER, "1"), (LOGGER, "1")]),
        (1, [BROKER], [(BROKER, "1")]),
        (1, [TOPIC, 16, 32], [(TOPIC, "a"), (TOPIC, "b")]),
        (1, [LOGGER], [(LOGGER, "1")]),
        (1, [16], []),
    ],
)
def test_what_has_a_configuration_is_listed(tmp_path, version, types, told):
    async def test(_, client):
        for name in "ba":
            await client.create_topic(name)
        request = ListConfigResourcesRequest(resource_types=types)
        answer = await client.call(ApiKey.LIST_CONFIG_RESOURCES, version, request)
        found = [(each.resource_type, each.resource_name) for each in answer.config_resources]
        assert (answer.error_code, found) == (0, told)

    with_client(tmp_path, test)


def test_an_unknown_type_of_resource_is_not_supported(tmp_path):
    async def test(_, client):
        request = ListConfigResourcesRequest(resource_types=[TOPIC, 3])
        answer = await client.call(ApiKey.LIST_CONFIG_RESOURCES, 1, request)
        assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])

    with_client(tmp_path, test)
