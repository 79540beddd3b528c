"""A broker with `ulimit -n 200` and many more segments than that: nothing stops, now or at the next start."""

import os

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

_OPEN_FILES = 200
_SEGMENTS = 320
# One fills a segment; written past the page cache, which opens a descriptor of its own.
_VALUE_BYTES = 530_000
_TOPICS = ("first", "second")


def _write(cluster: BrokerCluster, topic: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "logger": quiet_logger()})
    failed: list[KafkaError] = []
    for number in range(first, first + count):
        value = b"%d " % number + b"x" * _VALUE_BYTES
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and failed.append(error))
        if number % 20 == 0:
            assert producer.flush(DEADLINE_SECONDS) == 0
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert not failed


def _read(cluster: BrokerCluster, topic: str, offset: int) -> int:
    """Return the number that the record at `offset` begins with."""
    options = {"bootstrap.servers": cluster.bootstrap, "group.id": "nobody", "logger": quiet_logger()}
    consumer = Consumer({**options, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        message = consumer.poll(DEADLINE_SECONDS)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert value is not None
        return int(value[:10].split()[0])
    finally:
        consumer.close()


def _segments(cluster: BrokerCluster) -> int:
    return sum(1 for _ in (cluster[1].data_dir / "groups").rglob("*.log"))


def test_segments_beyond_the_limit_of_open_files_cost_nothing(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(1)
    cluster[1].open_files_max = _OPEN_FILES
    cluster.start()
    records = _SEGMENTS // 2
    for topic in _TOPICS:
        create_topic(cluster, topic, **{"segment.bytes": 1_048_576})
    for topic in _TOPICS:
        _write(cluster, topic, 0, records)
    assert _segments(cluster) > 300
    _check(cluster, records)
    assert cluster[1].terminate() == 0
    cluster.start()
    for topic in _TOPICS:
        _write(cluster, topic, records, 10)
    _check(cluster, records + 10)
    log = cluster[1].log_text()
    assert "this replica stops" not in log
    assert "Traceback" not in log


def _check(cluster: BrokerCluster, records: int) -> None:
    """Every record is there, and what was read long ago is not open any more."""
    for offset in [*range(0, records, records // 10), records - 1]:
        assert [_read(cluster, topic, offset) for topic in _TOPICS] == [offset, offset]
    assert len(os.listdir(f"/proc/{cluster[1].pid}/fd")) < _OPEN_FILES // 2
