"""Options that are set while a broker runs: each is set, told with its source, in force at once, and outlives a restart.

The brokers are wired as the process wires them, from their configuration on.
"""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    JoinGroupRequest,
    MetadataRequest,
)
from raftka.broker import application
from raftka.broker.application import Broker
from raftka.broker.dynamic_options import BrokerOptions
from raftka.config import load_config
from raftka.config_options import BY_DYNAMIC_NAME, BY_KEY, OPTIONS
from runtime.environment import system_environment
from tests.engine import consensus_of
from tests.feature_levels import LEVEL_0
from tests.unit.cluster.cluster_nodes import free_port, run, until
from tests.unit.kafka_api.wire_client import Client
from tests.unit.model.record_batches import build_batch

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
BROKER_CONFIG, FOR_ALL, STATIC, DEFAULT = 2, 3, 4, 5


class Running:
    """One broker of a cluster of its own, in this process, with a client."""

    def __init__(self, broker, client):
        self.broker = broker
        self.client = client
        self.node = broker._node
        self.server = broker._server

    async def change(self, name, *changes, resource_type=BROKER, validate_only=False):
        """Change keys, given as (key, operation, value); return the result."""
        configs = [
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=resource_type, resource_name=name, configs=configs
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        return (await self.client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses[0]

    async def set(self, name, **values):
        changes = [(key.replace("_", "."), SET, value) for key, value in values.items()]
        result = await self.change(name, *changes)
        assert result.error_code == 0, result.error_message

    async def told(self, name="1", resource_type=BROKER):
        """Return what is described, by key."""
        resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=resource_type, resource_name=name)
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        (result,) = (await self.client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)).results
        assert result.error_code == 0
        return {each.name: each for each in result.configs}

    async def synonyms(self, key, name="1", resource_type=BROKER):
        told = (await self.told(name, resource_type))[key]
        assert (told.value, told.config_source) == (told.synonyms[0].value, told.synonyms[0].source)
        return [(each.name, each.value, each.source) for each in told.synonyms]


@asynccontextmanager
async def running(path, **options):
    """A broker whose clients are served; `options` are those of its start."""
    level = logging.getLogger().level
    config = load_config(
        {
            "node.id": 1,
            "data.dir": f"{path}/data",
            "kafka.port": free_port("127.0.0.1"),
            "admin.port": 0,
            "rpc.port": 0,
            **{key.replace("_", "."): value for key, value in options.items()},
        }
    )
    broker = Broker(config, system_environment(), pytest.fail, print)
    client = None
    try:
        await broker.start()
        await until(broker.is_serving)
        client = Client(*await asyncio.open_connection("127.0.0.1", config.kafka_port))
        yield Running(broker, client)
    finally:
        if client is not None:
            await client.close()
        await broker.stop()
        logging.getLogger().setLevel(level)


def topic_default(name):
    return lambda broker: getattr(broker.node.controller.topics.defaults, name)


def raft(name):
    return lambda broker: getattr(consensus_of(partition(broker))._context.options, name)


def kafka(name):
    return lambda broker: getattr(broker.server._auto_topics._in_force.current, name)


def groups(name):
    return lambda broker: getattr(broker.server._groups.options, name)


def partition(broker):
    return next(iter(broker.node.partitions))


# Of each dynamic option: a value that is not its default, where that is read, and what is read then.
TABLE = {
    "num.partitions": ("3", kafka("num_partitions"), 3),
    "default.replication.factor": ("1", kafka("default_replication_factor"), 1),
    "auto.create.topics.enable": ("false", kafka("auto_create_topics"), False),
    "min.insync.replicas": ("2", topic_default("min_insync_replicas"), 2),
    "message.max.bytes": ("2000", lambda broker: partition(broker).config.max_message_bytes, 2000),
    "list.offsets.linearizable": ("false", topic_default("list_offsets_linearizable"), False),
    "broker.replicas.max": ("7", lambda broker: broker.node.admin.replicas_max(), 7),
    "raft.flush.interval.ms": ("200", raft("flush_interval"), 0.2),
    "raft.flush.bytes": ("8192", raft("flush_bytes"), 8192),
    "raft.unreplicated.max.bytes": ("65536", raft("unreplicated_bytes"), 65536),
    "raft.unflushed.max.bytes": ("65537", raft("unflushed_bytes"), 65537),
    "replica.lag.time.max.ms": ("300", raft("replica_lag_max"), 0.3),
    "leader.replication.throttled.rate": (
        "1001",
        lambda broker: broker.node.groups.limits.throttle.sending.rate,
        1001,
    ),
    "follower.replication.throttled.rate": (
        "0",
        lambda broker: broker.node.groups.limits.throttle.receiving.rate,
        0,
    ),
    "replication.learner.bytes.per.second": (
        "65537",
        lambda broker: broker.node.groups.limits.throttle.teaching.rate,
        65537,
    ),
    "disk.reserve.bytes": ("1000", lambda broker: broker.node.groups.limits.disk._reserve, 1000),
    "log.segment.bytes": (
        "2097152",
        lambda broker: consensus_of(partition(broker)).log._appender._options.segment_bytes,
        2097152,
    ),
    "log.roll.ms": ("7000", lambda broker: consensus_of(partition(broker)).log._appender._options.segment_ms, 7000),
    "log.retention.ms": ("100000", topic_default("retention_ms"), 100_000),
    "log.retention.bytes": ("100001", topic_default("retention_bytes"), 100_001),
    "log.retention.check.interval.ms": ("9000", lambda broker: broker.node._retention._interval(), 9.0),
    "log.message.timestamp.type": ("LogAppendTime", topic_default("message_timestamp_type"), "LogAppendTime"),
    "log.message.timestamp.before.max.ms": ("100002", topic_default("message_timestamp_before_max_ms"), 100_002),
    "log.message.timestamp.after.max.ms": ("100003", topic_default("message_timestamp_after_max_ms"), 100_003),
    "log.cleaner.min.cleanable.ratio": ("0.25", topic_default("min_cleanable_dirty_ratio"), 0.25),
    "log.cleaner.delete.retention.ms": ("100005", topic_default("delete_retention_ms"), 100_005),
    "log.cleaner.min.compaction.lag.ms": ("100006", topic_default("min_compaction_lag_ms"), 100_006),
    "log.cleaner.max.compaction.lag.ms": ("100007", topic_default("max_compaction_lag_ms"), 100_007),
    "producer.id.expiration.ms": (
        "5000",
        lambda broker: partition(broker).log_state._table._options.expiration_ms,
        5000,
    ),
    "group.min.session.timeout.ms": ("7000", groups("min_session_timeout_ms"), 7000),
    "group.max.session.timeout.ms": ("90000", groups("max_session_timeout_ms"), 90_000),
    "group.initial.rebalance.delay.ms": ("0", groups("initial_rebalance_delay_ms"), 0),
    "group.max.size": ("5", groups("max_size"), 5),
    "offsets.retention.minutes": ("60", groups("offsets_retention_ms"), 3_600_000),
    "offsets.retention.check.interval.ms": ("100004", groups("retention_check_interval_ms"), 100_004),
    "offset.metadata.max.bytes": ("10", groups("offset_metadata_bytes_max"), 10),
    "log.level": ("ERROR", lambda _: logging.getLevelName(logging.getLogger().level), "ERROR"),
}


def test_the_table_below_has_every_dynamic_option_and_they_are_numbers_words_and_booleans():
    dynamic = {option.key: option for option in OPTIONS if option.is_dynamic}
    assert TABLE.keys() == dynamic.keys()
    assert all(option.kind in ("int", "float", "bool", "string") for option in dynamic.values())
    assert len(BY_DYNAMIC_NAME) == len(dynamic) + 1
    assert not BY_DYNAMIC_NAME.keys() & {key for key, option in BY_KEY.items() if not option.is_dynamic}


def test_row_r48_every_dynamic_option_is_set_read_back_in_force_at_once_and_after_a_restart(tmp_path):
    async def check(broker):
        told = await broker.told()
        for key, (value, read, expected) in TABLE.items():
            assert (told[key].value, told[key].config_source, told[key].read_only) == (value, FOR_ALL, False), key
            assert read(broker) == expected, key
        assert {key: each.value for key, each in (await broker.told("")).items()} == {
            key: value for key, (value, _, _) in TABLE.items()
        }

    async def test():
        async with running(tmp_path) as broker:
            await broker.client.create_topic("t")
            before = await broker.told()
            for key, (value, read, expected) in TABLE.items():
                assert before[key].value != value or key == "default.replication.factor"
                assert read(broker) != expected, key
                result = await broker.change("", (key, SET, value))
                assert result.error_code == 0, result.error_message
                assert read(broker) == expected, key
            await check(broker)
        async with running(tmp_path) as broker:
            await until(lambda: len(broker.node.partitions))
            await check(broker)
            for key in TABLE:
                assert (await broker.change("", (key, DELETE, None))).error_code == 0
            after = await broker.told()
            for key, (_, read, expected) in TABLE.items():
                assert after[key] == before[key]
                assert read(broker) != expected, key
            assert await broker.told("") == {}

    run(test, seconds=60)


def test_what_is_set_on_the_broker_precedes_what_is_set_for_all_and_that_its_start(tmp_path):
    async def test():
        async with running(tmp_path, log_retention_ms=7000) as broker:
            await broker.client.create_topic("t")
            defaults = broker.node.controller.topics
            key, default = "log.retention.ms", ("log.retention.ms", "604800000", DEFAULT)
            steps = [
                (None, None, [(key, "7000", STATIC), default]),
                ("", "8000", [(key, "8000", FOR_ALL), (key, "7000", STATIC), default]),
                ("1", "9000", [(key, "9000", BROKER_CONFIG), (key, "8000", FOR_ALL), (key, "7000", STATIC), default]),
                ("", None, [(key, "9000", BROKER_CONFIG), (key, "7000", STATIC), default]),
                ("1", None, [(key, "7000", STATIC), default]),
            ]
            for name, value, synonyms in steps:
                if name is not None:
                    change = (key, DELETE if value is None else SET, value)
                    assert (await broker.change(name, change)).error_code == 0
                assert await broker.synonyms(key) == synonyms
                # A topic that leaves it open has the broker's.
                assert await broker.synonyms("retention.ms", "t", TOPIC) == synonyms
                assert defaults.get("t").config.retention_ms == int(synonyms[0][1])

    run(test)


def test_row_r24_the_lag_of_replicas_is_changed_live_by_either_name(tmp_path):
    async def test():
        async with running(tmp_path) as broker:
            await broker.client.create_topic("t")
            lag = raft("replica_lag_max")
            assert lag(broker) == 10.0
            for key, value in (("replication.max.time.lag.millis", "300"), ("replica.lag.time.max.ms", "1500")):
                assert (await broker.change("", (key, SET, value))).error_code == 0
                assert lag(broker) == int(value) / 1000
                assert broker.node.controller.options.of(None) == {"replica.lag.time.max.ms": value}
            assert (await broker.change("", ("replication.max.time.lag.millis", DELETE, None))).error_code == 0
            assert lag(broker) == 10.0

    run(test)


BAD = [
    ("replica.lag.time.max.ms", SET, "99", "must be from 100 to 600000"),
    ("replica.lag.time.max.ms", SET, "fast", "replica.lag.time.max.ms = 'fast': must be an integer"),
    ("replica.lag.time.max.ms", SET, "", "must be an integer"),
    ("replica.lag.time.max.ms", SET, "9" * 20_000, "longer than any value of it"),
    ("replica.lag.time.max.ms", APPEND, "1", "is no list"),
    ("auto.create.topics.enable", SET, "perhaps", "must be true or false"),
    ("log.message.timestamp.type", SET, "Never", "must be one of CreateTime, LogAppendTime"),
    ("log.level", SET, "LOUD", "must be one of DEBUG, INFO"),
    ("min.insync.replicas", SET, "0", "must be from 1 to 1000"),
    ("log.retention.ms", SET, "-2", "must be from -1 to"),
    # What a start refuses in other words than one key's.
    ("group.min.session.timeout.ms", SET, "1800001", "must not be above group.max.session.timeout.ms = 1800000"),
    ("group.max.session.timeout.ms", SET, "5999", "group.min.session.timeout.ms = 6000 must not be above"),
    ("default.replication.factor", SET, "2", "there is only 1 broker"),
    ("raft.election.timeout.ms", SET, "2000", "raft.election.timeout.ms is read when a broker starts"),
    ("seeds", SUBTRACT, "1@h:1", "seeds is read when a broker starts: set it where the broker is started"),
    ("node.id", DELETE, None, "node.id is read when a broker starts"),
    ("log.retention.m", SET, "5", "unknown option log.retention.m; did you mean log.retention.ms?"),
    ("admin.advertised.listener", SET, "x", "unknown option admin.advertised.listener"),
    ("k" * 20_000, SET, "5", "unknown option kkk"),
    ("", SET, "5", "unknown option"),
]


def test_what_may_not_be_set_is_refused_by_name_and_changes_nothing(tmp_path):
    async def test():
        async with running(tmp_path) as broker:
            await broker.set("1", log_roll_ms="5000")
            for name in ("", "1"):
                for key, operation, value, says in BAD:
                    for validate_only in (True, False):
                        changes = ("log.roll.ms", DELETE, None), (key, operation, value)
                        result = await broker.change(name, *changes, validate_only=validate_only)
                        assert result.error_code == ErrorCode.INVALID_CONFIG, (key, result.error_message)
                        assert says in result.error_message
                        assert len(result.error_message) < 1000
            assert [each.configs for each in broker.node.controller.options.all()] == [{"log.roll.ms": "5000"}]
            assert (await broker.change("2", ("log.roll.ms", SET, "5000"))).error_code == ErrorCode.INVALID_REQUEST
            twice = ("log.roll.ms", SET, "5000"), ("log.roll.ms", SET, "6000")
            assert (await broker.change("1", *twice)).error_code == ErrorCode.INVALID_REQUEST

    run(test)


def test_a_check_alone_changes_nothing(tmp_path):
    async def test():
        async with running(tmp_path) as broker:
            result = await broker.change("", ("log.retention.ms", SET, "5000"), validate_only=True)
            assert result.error_code == 0
            assert broker.node.controller.options.all() == []
            assert await broker.synonyms("log.retention.ms") == [("log.retention.ms", "604800000", DEFAULT)]

    run(test)


def test_the_older_request_replaces_all_that_is_set(tmp_path):
    async def test():
        async with running(tmp_path) as broker:
            # Of one broker, and of all.
            for name, whose in (("1", 1), ("", None)):
                await broker.set(name, log_retention_ms="5000", log_roll_ms="6000")
                given = [AlterConfigsRequest.AlterableConfig(name="log.roll.ms", value="7000")]
                resource = AlterConfigsRequest.AlterConfigsResource(
                    resource_type=BROKER, resource_name=name, configs=given
                )
                answer = await broker.client.call(ApiKey.ALTER_CONFIGS, 2, AlterConfigsRequest(resources=[resource]))
                assert answer.responses[0].error_code == 0
                assert broker.node.controller.options.of(whose) == {"log.roll.ms": "7000"}

    run(test)


def test_below_the_level_of_the_feature_everything_is_read_only_and_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(application, "OFFERED", LEVEL_0)

    async def test():
        async with running(tmp_path) as broker:
            result = await broker.change("", ("log.retention.ms", SET, "5000"))
            assert result.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert "raftka.membership at level 1, and the cluster uses it at level 0" in result.error_message
            assert all(each.read_only for each in (await broker.told()).values())

    run(test)


def test_only_dynamic_options_are_told_to_be_changeable(tmp_path):
    async def test():
        async with running(tmp_path) as broker:
            changeable = {key for key, each in (await broker.told()).items() if not each.read_only}
            assert changeable == TABLE.keys()

    run(test)


def test_what_kafkas_tools_only_delete_may_be_deleted_and_is_refused_with_a_value(tmp_path):
    key = "replica.alter.log.dirs.io.max.bytes.per.second"

    async def test():
        async with running(tmp_path) as broker:
            for name in ("", "1"):
                assert (await broker.change(name, (key, DELETE, None))).error_code == 0
                refused = await broker.change(name, (key, SET, "1000"))
                assert refused.error_code == ErrorCode.INVALID_CONFIG
                assert refused.error_message == (
                    f"{key} can only be deleted: a broker has one data directory, so nothing moves between two"
                )
            assert key not in await broker.told()

    run(test)


@pytest.mark.parametrize(("value", "why"), [("-1", "must be from 0 to"), ("20MB", "must be an integer")])
def test_a_throttled_rate_that_is_no_rate_is_refused(tmp_path, value, why):
    async def test():
        async with running(tmp_path) as broker:
            for key in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
                refused = await broker.change("1", (key, SET, value))
                assert refused.error_code == ErrorCode.INVALID_CONFIG
                assert key in refused.error_message
                assert why in refused.error_message

    run(test)


def test_bounds_of_clients_change_with_the_next_request(tmp_path):
    async def join(client):
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=1000, protocol_type="c", protocols=[protocol]
        )
        return (await client.call(ApiKey.JOIN_GROUP, 3, request)).error_code

    async def test():
        async with running(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
            client = broker.client
            await client.create_topic("t")
            batch = build_batch(b"x" * 3000)
            assert (await client.produce("t", batch)).error_code == 0
            await broker.set("", message_max_bytes="2000")
            assert (await client.produce("t", batch)).error_code == ErrorCode.MESSAGE_TOO_LARGE
            await broker.set("1", message_max_bytes="4000")
            assert (await client.produce("t", batch)).error_code == 0
            await broker.set("1", group_min_session_timeout_ms="11000")
            assert await join(client) == ErrorCode.INVALID_SESSION_TIMEOUT
            await broker.set("1", num_partitions="3")
            request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="made")])
            await client.call(ApiKey.METADATA, 9, request)
            await until(lambda: broker.node.controller.topics.get("made"))
            assert len(broker.node.controller.topics.get("made").replicas) == 3
            await broker.set("", auto_create_topics_enable="false")
            request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="unmade")])
            (told,) = (await client.call(ApiKey.METADATA, 9, request)).topics
            assert told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(test)


def test_the_level_of_the_root_logger_stays_as_it_was_set_until_the_option_changes(tmp_path):
    async def test():
        async with running(tmp_path) as broker:
            root = logging.getLogger()
            root.setLevel("CRITICAL")
            await broker.set("1", log_roll_ms="5000")
            assert root.level == logging.CRITICAL
            await broker.set("1", log_level="warn")
            assert root.level == logging.WARNING
            assert await broker.synonyms("log.level") == [
                ("log.level", "WARNING", BROKER_CONFIG),
                ("log.level", "INFO", DEFAULT),
            ]

    run(test)


def options_of(**flags):
    flags = {key.replace("_", "."): value for key, value in flags.items()}
    return BrokerOptions(load_config({"node.id": 1, **flags}), lambda: 1)


def test_what_another_version_has_set_is_passed_over_and_said_once(caplog):
    options = options_of()
    heard = []
    options.add_listener(heard.append)
    for _ in range(2):
        options.apply(
            {"newer.key": "1", "log.roll.ms": "5", "kafka.port": "7"}, {"log.level": "LOUD", "num.partitions": "2"}
        )
    assert len(heard) == 1
    assert options.in_force.config.num_partitions == 2
    assert (options.in_force.for_all, options.in_force.own) == ({}, {"num.partitions": 2})
    assert sorted(record.message.split(": ", 1)[1].split(" ")[0] for record in caplog.records) == [
        "broker",
        "broker",
        "kafka.port",
        "unknown",
    ]


def test_what_does_not_fit_to_how_a_broker_was_started_is_not_in_force_there(caplog):
    options = options_of(group_min_session_timeout_ms=9000)
    options.apply({"group.max.session.timeout.ms": "8000", "log.roll.ms": "5000"}, {})
    assert options.in_force.config.group_max_session_timeout_ms == 1_800_000
    assert options.in_force.for_all == {"log.roll.ms": 5000}
    assert "not in force on this broker: group.min.session.timeout.ms = 9000 must not be above" in caplog.text
    # It is in force as soon as it fits.
    options.apply({"group.max.session.timeout.ms": "8000"}, {"group.min.session.timeout.ms": "7000"})
    assert options.in_force.config.group_max_session_timeout_ms == 8000


def test_a_value_is_kept_in_one_spelling():
    options = options_of()
    for key, value, kept in (
        ("log.roll.ms", " 05_000 ", "5000"),
        ("auto.create.topics.enable", "NO", "false"),
        ("log.level", "fatal", "CRITICAL"),
        ("log.message.timestamp.type", "logappendtime", "LogAppendTime"),
    ):
        assert options.normalized(key, value) == kept
