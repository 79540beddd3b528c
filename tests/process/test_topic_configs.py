"""Topics are configured and grow while clients use them: confluent-kafka's and kafka-python's admin clients."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from tests.process import kafka_python
from tests.process.acked_log import quiet_logger, read_all
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import admin_client, alter, create_topic, topics_at, wait_topic_everywhere

pytestmark = pytest.mark.process

_HOUR_MS = 3_600_000


def describe(bootstrap: str, kind: ResourceType, name: str) -> dict[str, Any]:
    resource = ConfigResource(kind, name)
    admin = admin_client(bootstrap)
    return dict(admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS))


def produce(bootstrap: str, topic: str, value: bytes, timestamp: int = 0, partition: int = 0) -> KafkaError | None:
    """Write one record with acks=all; return what was wrong with it."""
    outcome: list[KafkaError | None] = []
    options = {"bootstrap.servers": bootstrap, "acks": "all", "logger": quiet_logger(), "message.max.bytes": 4_000_000}
    producer = Producer({**options, "message.timeout.ms": 60_000})
    producer.produce(
        topic, value, partition=partition, timestamp=timestamp, on_delivery=lambda error, _: outcome.append(error)
    )
    assert producer.flush(DEADLINE_SECONDS) == 0
    return outcome[0]


@contextmanager
def python_admin(cluster: BrokerCluster) -> Iterator[kafka_python.KafkaAdminClient]:
    """Yield kafka-python's admin client."""
    client = kafka_python.KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        yield client
    finally:
        client.close()


def test_a_smaller_batch_bound_holds_at_once_and_its_deletion_too(shared_cluster: BrokerCluster):
    create_topic(shared_cluster, "config-batch-bound")
    value = b"x" * 50_000
    assert produce(shared_cluster.bootstrap, "config-batch-bound", value) is None
    alter(shared_cluster, "config-batch-bound", max_message_bytes="20000")

    def refused() -> bool:
        error = produce(shared_cluster.bootstrap, "config-batch-bound", value)
        return error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE

    # The leader may apply a moment later than the broker that answered.
    eventually("batches above the bound refused", refused)
    alter(shared_cluster, "config-batch-bound", max_message_bytes=None)
    eventually("batches accepted again", lambda: produce(shared_cluster.bootstrap, "config-batch-bound", value) is None)


def test_timestamps_become_the_leaders_and_the_producers_again(shared_cluster: BrokerCluster):
    topic = "config-timestamps"
    # Or retention takes what is of 1970, in the middle of the test.
    create_topic(shared_cluster, topic, **{"retention.ms": "-1"})
    now = int(time.time() * 1000)
    assert produce(shared_cluster.bootstrap, topic, b"old", timestamp=5) is None
    alter(shared_cluster, topic, message_timestamp_type="LogAppendTime")

    def last() -> tuple[int, int]:
        assert produce(shared_cluster.bootstrap, topic, b"value", timestamp=5) is None
        return read_all(shared_cluster.bootstrap, topic)[-1].timestamp

    eventually("the leader's time", lambda: last()[0] == TIMESTAMP_LOG_APPEND_TIME)
    kind, stamped = last()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert now <= stamped <= int(time.time() * 1000)
    alter(shared_cluster, topic, message_timestamp_type="CreateTime")
    eventually("the producer's time", lambda: last() == (TIMESTAMP_CREATE_TIME, 5))


def test_a_timestamp_out_of_bounds_is_refused(shared_cluster: BrokerCluster):
    topic = "config-timestamp-bounds"
    create_topic(shared_cluster, topic, **{"message.timestamp.before.max.ms": "60000"})
    now = int(time.time() * 1000)
    assert produce(shared_cluster.bootstrap, topic, b"value", timestamp=now) is None
    for timestamp in (now - 120_000, now + 2 * _HOUR_MS):
        error = produce(shared_cluster.bootstrap, topic, b"value", timestamp=timestamp)
        assert error is not None
        assert error.code() == KafkaError.INVALID_TIMESTAMP


@kafka_python.with_kafka_python
def test_kafka_python_is_told_the_leaders_time(shared_cluster: BrokerCluster):
    topic = "config-python-time"
    create_topic(shared_cluster, topic, **{"message.timestamp.type": "LogAppendTime"})
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=shared_cluster.bootstrap.split(","), compression_type="gzip", enable_idempotence=False
    )
    try:
        sent = producer.send(topic, b"value", timestamp_ms=5).get(timeout=60)
    finally:
        producer.close()
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=shared_cluster.bootstrap.split(","), auto_offset_reset="earliest"
    )
    try:
        consumer.assign([kafka_python.TopicPartition(topic, 0)])
        consumer.seek(kafka_python.TopicPartition(topic, 0), 0)
        [record] = eventually(
            "the record", lambda: consumer.poll(timeout_ms=1000).get(kafka_python.TopicPartition(topic, 0))
        )
        found = consumer.offsets_for_times({kafka_python.TopicPartition(topic, 0): record.timestamp})
    finally:
        consumer.close()
    assert record.timestamp == sent.timestamp > 5
    assert record.timestamp_type == 1
    assert found[kafka_python.TopicPartition(topic, 0)].offset == 0


def test_acks_all_waits_for_as_many_replicas_as_are_set_at_run_time(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, "careful")
    assert produce(cluster.bootstrap, "careful", b"all alive") is None
    alter(cluster, "careful", min_insync_replicas="3")
    leader = int(cluster.partition("careful", 0)["leader"])
    victim = next(node for node in cluster.brokers if node != leader)
    cluster[victim].kill()
    survivors = ",".join(broker.kafka for broker in cluster.running)
    options = {"bootstrap.servers": survivors, "acks": "all", "logger": quiet_logger(), "message.timeout.ms": 5000}

    def is_refused() -> bool:
        outcome: list[KafkaError | None] = []
        producer = Producer(options)
        producer.produce("careful", b"two of three", partition=0, on_delivery=lambda error, _: outcome.append(error))
        assert producer.flush(DEADLINE_SECONDS) == 0
        return outcome[0] is not None

    # The leader may apply a moment later than the broker that answered.
    eventually("two are not enough", is_refused)
    alter(cluster, "careful", min_insync_replicas=None)
    eventually("two are enough again", lambda: produce(survivors, "careful", b"majority") is None)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_topic_grows_through_any_broker_while_it_is_used(shared_cluster: BrokerCluster, node: int):
    topic = f"config-grows-{node}"
    create_topic(shared_cluster, topic, partitions=2)
    assert produce(shared_cluster.bootstrap, topic, b"before", partition=1) is None
    admin = admin_client(shared_cluster[node].kafka)
    admin.create_partitions([NewPartitions(topic, 5)], operation_timeout=30)[topic].result(DEADLINE_SECONDS)
    wait_topic_everywhere(shared_cluster, topic)
    assert topics_at(shared_cluster[node].kafka)[topic] == 5
    assert produce(shared_cluster.bootstrap, topic, b"after", partition=4) is None
    assert len(shared_cluster.partition(topic, 4)["replicas"]) == 3
    for count, assignment in ((5, None), (4, None), (6, [[1, 1, 2]])):
        more = NewPartitions(topic, count) if assignment is None else NewPartitions(topic, count, assignment)
        with pytest.raises(KafkaException) as refused:
            admin.create_partitions([more])[topic].result(DEADLINE_SECONDS)
        assert refused.value.args[0].code() in (
            KafkaError.INVALID_PARTITIONS,
            KafkaError.INVALID_REPLICA_ASSIGNMENT,
        )


def test_a_topic_is_described_alike_by_every_broker(shared_cluster: BrokerCluster):
    create_topic(shared_cluster, "config-described", **{"retention.ms": "1234567"})
    for broker in shared_cluster.brokers.values():
        configs = describe(broker.kafka, ResourceType.TOPIC, "config-described")
        assert configs["retention.ms"].value == "1234567"
        assert not configs["retention.ms"].is_default
        assert [each.value for each in configs["retention.ms"].synonyms.values()][-1] == "604800000"
        assert configs["cleanup.policy"].is_default
        assert not any(config.is_read_only for config in configs.values())


def test_brokers_describe_themselves_and_name_their_admin_ports(shared_cluster: BrokerCluster):
    for node, broker in shared_cluster.brokers.items():
        configs = describe(shared_cluster.bootstrap, ResourceType.BROKER, str(node))
        assert configs["node.id"].value == str(node)
        assert configs["admin.advertised.listener"].value == f"http://{broker.admin}"
        assert configs["node.id"].is_read_only
        # Options that change while brokers run are not.
        assert not configs["log.retention.ms"].is_read_only
    resource = ConfigResource(
        ResourceType.BROKER,
        "1",
        incremental_configs=[ConfigEntry("kafka.port", "5", incremental_operation=AlterConfigOpType.SET)],
    )
    admin = admin_client(shared_cluster.bootstrap)
    with pytest.raises(KafkaException) as refused:
        admin.incremental_alter_configs([resource])[resource].result(DEADLINE_SECONDS)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert "kafka.port" in refused.value.args[0].str()


def test_clients_are_told_the_address_that_is_advertised(make_cluster: ClusterMaker):
    advertised = {"kafka.advertised.address": "broker.example.org", "kafka.advertised.port": 19_092}
    cluster = make_cluster(1, **advertised)
    cluster.start()
    told = admin_client(cluster.bootstrap).list_topics(timeout=DEADLINE_SECONDS).brokers[1]
    assert (told.host, told.port) == tuple(advertised.values())


@kafka_python.with_kafka_python
def test_kafka_python_describes_changes_and_grows_a_topic(shared_cluster: BrokerCluster):
    topic = "config-python"
    create_topic(shared_cluster, topic)
    with python_admin(shared_cluster) as admin:
        admin.alter_configs(
            [kafka_python.ConfigResource("TOPIC", topic, {"retention.ms": "77000", "segment.ms": "50000"})]
        )
        told = admin.describe_configs([kafka_python.ConfigResource("TOPIC", topic)], config_filter="all")
        values = {key: config["value"] for key, config in told["topic"][topic].items()}
        assert (values["retention.ms"], values["segment.ms"]) == ("77000", "50000")
        brokers = admin.describe_configs([kafka_python.ConfigResource("BROKER", "2")], config_filter="all")
        assert brokers["broker"]["2"]["node.id"]["value"] == "2"
        admin.create_partitions({topic: 3})
        eventually("three partitions", lambda: topics_at(shared_cluster.bootstrap)[topic] == 3)


def test_a_changed_configuration_outlives_a_restart(make_cluster: ClusterMaker):
    cluster = make_cluster(1, seeds=[])
    cluster.start()
    create_topic(cluster, "kept")
    alter(cluster, "kept", retention_ms="4321", max_message_bytes="20000")
    assert cluster[1].terminate() == 0
    cluster.restart([1])
    assert describe(cluster.bootstrap, ResourceType.TOPIC, "kept")["retention.ms"].value == "4321"
    error = produce(cluster.bootstrap, "kept", b"x" * 50_000)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_the_brokers_own_defaults_hold_for_topics_that_do_not_say(make_cluster: ClusterMaker):
    options = {"message.max.bytes": 20_000, "num.partitions": 3, "auto.create.topics.enable": True}
    cluster = make_cluster(1, seeds=[], **options)
    cluster.start()
    error = produce(cluster.bootstrap, "made-by-writing", b"x" * 50_000)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert topics_at(cluster.bootstrap)["made-by-writing"] == 3
    told = describe(cluster.bootstrap, ResourceType.TOPIC, "made-by-writing")["max.message.bytes"]
    assert (told.value, told.source) == ("20000", 4)


def test_without_topics_on_demand_a_producer_is_told_that_there_is_none(shared_cluster: BrokerCluster):
    options = {"bootstrap.servers": shared_cluster.bootstrap, "logger": quiet_logger(), "message.timeout.ms": 5000}
    outcome: list[KafkaError | None] = []
    producer = Producer(options)
    producer.produce("never-made", b"value", on_delivery=lambda error, _: outcome.append(error))
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert outcome[0] is not None
    assert "never-made" not in topics_at(shared_cluster.bootstrap)
