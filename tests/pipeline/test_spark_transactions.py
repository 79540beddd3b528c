"""Spark's Kafka source at read_committed: committed records once, nothing aborted, nothing beyond the last stable offset.

A batch may end with a marker, which Spark counts as an offset and never gets; streams go on behind it. On Apache Kafka
first (`make test-long`), and with the same outcome on Raftka.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from raftka.kafka.client import create_topic
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.restoring import Restore, restore
from raftka.pipeline.archive.verification import Wanted, verify
from tests.needed_tools import needs_tools
from tests.pipeline.pipelines import new_topic, read_available, run
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster

COMMITTED = {"kafka.isolation.level": "read_committed"}

_APACHE_KAFKA = pytest.param("apache-kafka", marks=[pytest.mark.long, needs_tools("java", "mvn")])
_numbers = itertools.count()


@pytest.fixture(scope="module")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three brokers of Apache Kafka, as it is shipped: their addresses."""
    from benchmarks.kafka.kafka_cluster import running_kafka

    with running_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka.bootstrap


@pytest.fixture(params=[_APACHE_KAFKA, "raftka"])
def brokers(request: pytest.FixtureRequest) -> str:
    """The addresses of three brokers."""
    if request.param == "apache-kafka":
        return str(request.getfixturevalue("apache_kafka"))
    cluster: BrokerCluster = request.getfixturevalue("cluster")
    return cluster.bootstrap


@pytest.fixture
def topic(brokers: str, request: pytest.FixtureRequest) -> str:
    """A topic of one partition."""
    if "apache" not in request.node.name:
        return new_topic(request.getfixturevalue("cluster"), "orders")
    name = f"orders-{next(_numbers)}"
    create_topic(brokers, name, 1, 3)
    return name


def transactional(brokers: str, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": brokers,
            "transactional.id": name,
            "transaction.timeout.ms": 600_000,
            "logger": quiet_logger(),
        }
    )
    producer.init_transactions(DEADLINE_SECONDS)
    return producer


def begin(producer: Producer, topic: str, numbers: range) -> None:
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0


def read(spark: Any, brokers: str, topic: str, **options: str) -> list[int]:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", brokers).option("subscribe", topic)
    return sorted(int(row.value) for row in reader.options(**options).load().select("value").collect())


def test_spark_reads_what_is_committed_and_goes_on_behind_markers(
    spark: Any, brokers: str, topic: str, tmp_path: Path
) -> None:
    producer, late = transactional(brokers, topic), transactional(brokers, f"{topic}-late")
    begin(producer, topic, range(100))
    producer.commit_transaction(DEADLINE_SECONDS)
    begin(producer, topic, range(100, 150))
    producer.abort_transaction(DEADLINE_SECONDS)
    begin(producer, topic, range(150, 200))
    producer.commit_transaction(DEADLINE_SECONDS)
    begin(late, topic, range(200, 210))
    begin(producer, topic, range(210, 220))
    producer.commit_transaction(DEADLINE_SECONDS)
    stable = [*range(100), *range(150, 200)]
    assert read(spark, brokers, topic, **COMMITTED) == stable
    assert read(spark, brokers, topic) == list(range(220))

    found: list[int] = []
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").options(**COMMITTED)

    def take(frame: Any, _: int) -> None:
        found.extend(int(row.value) for row in frame.select("value").collect())

    def read_on() -> list[int]:
        found.clear()
        read_available(reader.option("maxOffsetsPerTrigger", 30), take, tmp_path / "checkpoint")
        return sorted(found)

    assert read_on() == stable
    assert read_on() == []
    late.commit_transaction(DEADLINE_SECONDS)
    assert read_on() == list(range(200, 220))
    begin(producer, topic, range(220, 230))
    producer.abort_transaction(DEADLINE_SECONDS)
    assert read_on() == []
    begin(producer, topic, range(230, 240))
    producer.commit_transaction(DEADLINE_SECONDS)
    assert read_on() == list(range(230, 240))


@pytest.mark.parametrize(("level", "restored"), [("read_committed", range(20, 40)), ("read_uncommitted", range(40))])
def test_an_archive_restores_aborted_records_only_if_it_was_written_at_read_uncommitted(
    spark: Any, cluster: BrokerCluster, tmp_path: Path, level: str, restored: range
) -> None:
    topic, path = new_topic(cluster, "orders"), tmp_path / "cold"
    producer = transactional(cluster.bootstrap, topic)
    begin(producer, topic, range(20))
    producer.abort_transaction(DEADLINE_SECONDS)
    begin(producer, topic, range(20, 40))
    producer.commit_transaction(DEADLINE_SECONDS)
    run(spark, tmp_path, "archive", topics=topic, to=str(path), brokers=cluster.bootstrap, isolation_level=level)
    folder = ArchiveFolder.open(path)
    assert verify(spark, folder, Wanted(cluster.bootstrap, isolation_level=level)).is_whole
    back = f"{topic}-back"
    restore(spark, folder, Restore(cluster.bootstrap, topic, back))
    assert read(spark, cluster.bootstrap, back, **COMMITTED) == list(restored)
