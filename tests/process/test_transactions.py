"""Transactions of librdkafka on broker processes while brokers die: each one that commits is there once and whole."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

_TRANSACTIONS = 12
_PARTITIONS = (0, 1)


def _producer(cluster: BrokerCluster) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": "sink",
            "transaction.timeout.ms": 60_000,
            "linger.ms": 0,
            "logger": quiet_logger(),
        }
    )
    _until_known(lambda: producer.init_transactions(DEADLINE_SECONDS))
    return producer


def _until_known(step: Callable[[], object]) -> None:
    """Repeat a step whose outcome is not known yet, as librdkafka wants it."""
    while True:
        try:
            step()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _commit(producer: Producer, value: str) -> None:
    """Write a value to all partitions in one transaction; one that has to be aborted is begun anew."""
    while True:
        producer.begin_transaction()
        for partition in _PARTITIONS:
            producer.produce("t", value.encode(), partition=partition)
        try:
            _until_known(lambda: producer.commit_transaction(DEADLINE_SECONDS))
            return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _until_known(lambda: producer.abort_transaction(DEADLINE_SECONDS))


def _committed(cluster: BrokerCluster, partition: int) -> list[str]:
    """Return what readers at read_committed get of a partition, up to the value `end`."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reader-{partition}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "logger": quiet_logger(),
        }
    )
    values: list[str] = []

    def has_ended() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
        return values[-1:] == ["end"]

    try:
        consumer.assign([TopicPartition("t", partition, 0)])
        eventually(lambda: f"{len(values)} values of partition {partition}", lambda: has_ended() or None)
    finally:
        consumer.close()
    return values


def test_every_committed_transaction_is_there_once_though_its_coordinator_is_killed(make_cluster: ClusterMaker) -> None:
    options = {"unstable.feature.versions.enable": True, "transaction.state.log.num.partitions": 1}
    cluster = make_cluster(3, **options)
    cluster.start()
    create_topic(cluster, "t", len(_PARTITIONS))
    producer = _producer(cluster)
    for number in range(_TRANSACTIONS):
        _commit(producer, str(number))
        if number in (3, 7):
            killed = cluster.leader_of(TRANSACTIONS_TOPIC, 0)
            cluster[killed].kill()
            _commit(producer, f"without {killed}")
            cluster.restart([killed])
            cluster.wait_in_sync(TRANSACTIONS_TOPIC, 0)
    _commit(producer, "end")
    found = [_committed(cluster, partition) for partition in _PARTITIONS]
    numbers = [str(number) for number in range(_TRANSACTIONS)]
    for values in found:
        assert [value for value in values if value.isdecimal()] == numbers
    assert found[0] == found[1]
    for broker in cluster.running:
        assert "Traceback" not in broker.log_text()
