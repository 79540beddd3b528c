"""`list.offsets.linearizable`: what a leader tells a real client while its followers are frozen (SIGSTOP)."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import admin_client, alter, create_topic

pytestmark = pytest.mark.process

KEY = "list.offsets.linearizable"
# So long the leader stays in office without an answer of its followers.
_ELECTION_MS = 300_000
# How long a client waits for an answer that does not come; far below the former.
_PATIENCE_SECONDS = 3.0
_LEVELS = (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)


@contextmanager
def alone(cluster: BrokerCluster, leader: int) -> Iterator[None]:
    """All other brokers do nothing during the block."""
    others = [broker for number, broker in cluster.brokers.items() if number != leader]
    for broker in others:
        os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for broker in others:
            os.kill(broker.pid, signal.SIGCONT)


def produce(bootstrap: str, topic: str) -> None:
    """Write one record at acks=all, with timestamp 5."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "logger": quiet_logger()})
    producer.produce(topic, b"value", partition=0, timestamp=5)
    assert producer.flush(DEADLINE_SECONDS) == 0


def told(address: str, topic: str, spec: OffsetSpec, isolation: IsolationLevel) -> int | None:
    """Return the offset that the admin client is told; None: it is told none while its patience lasts."""
    admin = AdminClient({"bootstrap.servers": address, "logger": quiet_logger()})
    partition = TopicPartition(topic, 0)
    asked = admin.list_offsets({partition: spec}, isolation_level=isolation, request_timeout=_PATIENCE_SECONDS)
    try:
        offset = int(asked[partition].result(2 * _PATIENCE_SECONDS).offset)
    except (KafkaException, TimeoutError):
        return None
    # librdkafka gives an invalid offset, and no error, where it would have asked again and has no time left.
    return offset if offset >= 0 else None


def wait_told(address: str, topic: str, spec: OffsetSpec, isolation: IsolationLevel, offset: int) -> None:
    """Ask until the answer is this one: a client may first look for metadata at a broker that is frozen."""
    eventually(f"{topic} at {offset}", lambda: told(address, topic, spec, isolation) == offset)


def test_a_leader_that_nobody_confirms_tells_the_latest_offset_only_where_the_topic_lets_it(make_cluster: ClusterMaker):
    cluster = make_cluster(3, **{"raft.election.timeout.ms": _ELECTION_MS})
    cluster.start()
    leaders = {}
    for topic, value in (("confirmed", None), ("alone", "false")):
        # The record is of 1970: retention by time would take it.
        create_topic(cluster, topic, **{"retention.ms": "-1"})
        alter(cluster, topic, list_offsets_linearizable=value)
        produce(cluster.bootstrap, topic)
        leaders[topic] = cluster.leader_of(topic, 0)
    specs = ((OffsetSpec.latest(), 1), (OffsetSpec.max_timestamp(), 0), (OffsetSpec.for_timestamp(5), 0))
    for topic, leader in leaders.items():
        address = cluster[leader].kafka
        for level in _LEVELS:
            for spec, offset in specs:
                wait_told(address, topic, spec, level, offset)
        with alone(cluster, leader):
            for level in _LEVELS:
                wait_told(address, topic, OffsetSpec.earliest(), level, 0)
                if topic == "alone":
                    wait_told(address, topic, OffsetSpec.latest(), level, 1)
                else:
                    assert told(address, topic, OffsetSpec.latest(), level) is None
        wait_told(address, topic, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED, 1)


def test_a_brokers_default_is_shown_and_overridden_by_a_topic(make_cluster: ClusterMaker):
    cluster = make_cluster(1, seeds=[], **{KEY: False})
    cluster.start()
    create_topic(cluster, "t")

    def shown() -> tuple[str, int]:
        resource = ConfigResource(ResourceType.TOPIC, "t")
        admin = admin_client(cluster.bootstrap)  # Its futures die with it.
        entry = admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS)[KEY]
        return entry.value, entry.source

    assert shown() == ("false", 4)
    alter(cluster, "t", list_offsets_linearizable="true")
    eventually("the topic's own value", lambda: shown() == ("true", 1))
    alter(cluster, "t", list_offsets_linearizable=None)
    eventually("the broker's value again", lambda: shown() == ("false", 4))
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "logger": quiet_logger()})
    try:
        assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=DEADLINE_SECONDS) == (0, 0)
    finally:
        consumer.close()
