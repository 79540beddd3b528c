"""Consumers are told of errors, and go on where they can."""

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic, delete_topic

pytestmark = pytest.mark.process

TOPIC = "orders"
# More lines than that in one of these tests means that the client repeats something without a pause.
_LINES_MAX = 200


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _consumer_at(bootstrap: str, offset: int, **options: object) -> Iterator[tuple[Consumer, list[str]]]:
    """Yield a consumer of the topic's partition 0, and its log."""
    handler, logger = _Lines(), logging.getLogger("librdkafka")
    logger.addHandler(handler)
    logger.propagate = False
    config = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **options}
    consumer = Consumer(config, logger=logger)
    try:
        consumer.assign([TopicPartition(TOPIC, 0, offset)])
        yield consumer, handler.lines
    finally:
        consumer.close()
        logger.removeHandler(handler)


def _next(consumer: Consumer) -> Message:
    return eventually("a message or an error", lambda: consumer.poll(0.2))


def _write(cluster: BrokerCluster, *values: bytes) -> None:
    outcomes: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for value in values:
        producer.produce(TOPIC, value, on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(DEADLINE_SECONDS)
    assert outcomes == [None] * len(values)


@contextmanager
def _stopped(broker: BrokerProcess) -> Iterator[None]:
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_a_consumer_reads_on_when_its_leader_was_stopped_and_is_none_any_more(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, TOPIC)
    _write(cluster, b"before")
    with _consumer_at(cluster.bootstrap, 0) as (consumer, lines):
        assert _next(consumer).value() == b"before"
        leader = cluster.leader_of(TOPIC, 0)
        with _stopped(cluster[leader]):
            cluster.leader_of(TOPIC, 0, other_than=leader)
        _write(cluster, b"after")
        assert _next(consumer).value() == b"after"
        assert len(lines) < _LINES_MAX, lines[-3:]


def test_a_consumer_of_a_deleted_topic_asks_again_in_its_own_time(make_cluster: ClusterMaker):
    # librdkafka takes UNKNOWN_TOPIC_ID for old metadata and tells its user nothing; it must not spin over it.
    cluster = make_cluster(1)
    cluster.start()
    create_topic(cluster, TOPIC)
    _write(cluster, b"before")
    with _consumer_at(cluster.bootstrap, 0) as (consumer, lines):
        assert _next(consumer).value() == b"before"
        delete_topic(cluster.bootstrap, TOPIC)
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            message = consumer.poll(0.2)
            assert message is None or message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert len(lines) < _LINES_MAX, lines[-3:]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", b"1"), ("latest", b"3"), ("error", None)])
def test_an_offset_out_of_range_is_reset_as_the_client_was_told(make_cluster: ClusterMaker, reset, expected):
    cluster = make_cluster(1)
    cluster.start()
    create_topic(cluster, TOPIC)
    _write(cluster, b"1", b"2")
    with _consumer_at(cluster.bootstrap, 99_999_999, **{"auto.offset.reset": reset}) as (consumer, lines):
        if reset == "latest":
            # Written again and again: the reset comes at its own time.
            def seen() -> Message | None:
                _write(cluster, b"3")
                return consumer.poll(0.5)

            message = eventually("a record behind the reset", seen)
        else:
            message = _next(consumer)
        if expected is None:
            assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
        else:
            assert message.value() == expected
        assert len(lines) < _LINES_MAX, lines[-3:]
