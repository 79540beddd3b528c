"""librdkafka's consumer goes on, or says what is wrong, when its fetches are answered with errors."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.process.acked_log import new_consumer, quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, BrokerProcess, ClusterMaker
from tests.process.kafka_topics import create_topic, delete_topic
from tests.process.kcat import consume, needs_kcat

pytestmark = pytest.mark.process

FAR_AWAY = 99_999_999
# Beyond heartbeats and election: another broker leads when the stopped one comes back.
STOPPED_SECONDS = 4.0
LISTEN_SECONDS = 5.0
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class LogLines:
    """What a client logs; `logging.Logger` as far as confluent-kafka uses it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, level: int, text: str, *arguments: Any) -> None:
        self.lines.append(text % arguments)


@contextmanager
def frozen(broker: BrokerProcess) -> Iterator[None]:
    """SIGSTOP the broker; SIGCONT at the end, however it comes."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def produce(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "logger": quiet_logger()})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0


def poll_until(consumer: Consumer, is_it: Callable[[Message], bool]) -> Message:
    """Poll until a message or an error is the one that is waited for."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and is_it(message):
            return message
    raise AssertionError("the consumer is stuck")


def test_a_consumer_reads_on_after_its_leader_was_frozen(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, "thawed")
    produce(cluster.bootstrap, "thawed", b"before")
    consumer = new_consumer(cluster.bootstrap)
    try:
        consumer.assign([TopicPartition("thawed", 0, 0)])
        poll_until(consumer, lambda message: message.value() == b"before" and message.error() is None)
        with frozen(cluster[cluster.leader_of("thawed", 0)]):
            time.sleep(STOPPED_SECONDS)
        produce(cluster.bootstrap, "thawed", b"after")
        found = poll_until(consumer, lambda message: message.error() is None)
        assert (found.offset(), found.value()) == (1, b"after")
    finally:
        consumer.close()
    for broker in cluster.brokers.values():
        assert "socket.send() raised exception" not in broker.log_text()


def test_a_deleted_topic_neither_fills_the_log_nor_keeps_a_consumer_from_its_other_topics(
    shared_cluster: BrokerCluster,
):
    for topic in ("short-lived", "long-lived"):
        create_topic(shared_cluster, topic)
        produce(shared_cluster.bootstrap, topic, b"only")
    log = LogLines()
    # librdkafka believes that a topic is gone only after a while, 30 s unless told.
    consumer = new_consumer(shared_cluster.bootstrap, logger=log, **{"topic.metadata.propagation.max.ms": 1_000})
    try:
        consumer.assign([TopicPartition("short-lived", 0, 0), TopicPartition("long-lived", 0, 0)])
        for _ in range(2):
            poll_until(consumer, lambda message: message.error() is None)
        delete_topic(shared_cluster.bootstrap, "short-lived")
        deadline = time.monotonic() + LISTEN_SECONDS
        while time.monotonic() < deadline:
            consumer.poll(0.2)
        produce(shared_cluster.bootstrap, "long-lived", b"after")
        assert poll_until(consumer, lambda message: message.error() is None).value() == b"after"
        with pytest.raises(KafkaException) as refused:
            consumer.get_watermark_offsets(TopicPartition("short-lived", 0), timeout=DEADLINE_SECONDS)
        assert refused.value.args[0].code() in _UNKNOWN
    finally:
        consumer.close()
    assert len(log.lines) < 20, log.lines[:5]
    assert not [line for line in log.lines if "parse" in line.lower()]


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_consumer_from_an_offset_that_is_not_there_resets(shared_cluster: BrokerCluster, reset: str):
    topic = f"reset-{reset}"
    create_topic(shared_cluster, topic)
    produce(shared_cluster.bootstrap, topic, b"0", b"1", b"2")
    consumer = new_consumer(shared_cluster.bootstrap, **{"auto.offset.reset": reset})
    try:
        consumer.assign([TopicPartition(topic, 0, FAR_AWAY)])
        if reset == "latest":
            deadline = time.monotonic() + LISTEN_SECONDS
            while time.monotonic() < deadline:
                assert consumer.poll(0.2) is None
            produce(shared_cluster.bootstrap, topic, b"3")
        found = poll_until(consumer, lambda message: True)
        assert found.error() is None
        assert found.value() == (b"0" if reset == "earliest" else b"3")
    finally:
        consumer.close()


@needs_kcat
def test_kcat_from_an_offset_that_is_not_there_resets(shared_cluster: BrokerCluster):
    topic, bootstrap = "kcat-reset", shared_cluster.bootstrap
    create_topic(shared_cluster, topic)
    produce(bootstrap, topic, b"0", b"1")
    assert consume(bootstrap, topic, str(FAR_AWAY), "-X", "auto.offset.reset=earliest") == ["0", "1"]
    assert consume(bootstrap, topic, str(FAR_AWAY), "-X", "auto.offset.reset=latest") == []
