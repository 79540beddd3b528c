"""Transactions of librdkafka on broker processes while brokers die: each one that commits is there once and whole."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

_TRANSACTIONS = 12
_PARTITIONS = (0, 1)


def _producer(cluster: BrokerCluster, transactional_id: str = "sink") -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 300_000,  # No test waits for it, on a busy machine neither.
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


def _consumer(cluster: BrokerCluster, group: str, isolation_level: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "logger": quiet_logger(),
        }
    )


def _read(cluster: BrokerCluster, partition: int, last: str, isolation_level: str = "read_committed") -> list[str]:
    """Return what readers get of a partition, up to the value `last`."""
    consumer, values = _consumer(cluster, f"reader-{partition}", isolation_level), list[str]()

    def has_ended() -> bool:
        while values[-1:] != [last] and (message := consumer.poll(0.2)) is not None:
            if message.error() is None:
                values.append((message.value() or b"").decode())
        return values[-1:] == [last]

    try:
        consumer.assign([TopicPartition("t", partition, 0)])
        eventually(lambda: f"{len(values)} values of partition {partition}", lambda: has_ended() or None)
    finally:
        consumer.close()
    return values


def test_every_committed_transaction_is_there_once_though_its_coordinator_is_killed(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3, **{"transaction.state.log.num.partitions": 1})
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
    found = [_read(cluster, partition, "end") for partition in _PARTITIONS]
    numbers = [str(number) for number in range(_TRANSACTIONS)]
    for values in found:
        assert [value for value in values if value.isdecimal()] == numbers
    assert found[0] == found[1]
    for broker in cluster.running:
        assert "Traceback" not in broker.log_text()


def test_row_r1_records_offsets_and_transactions_survive_the_leader_of_each_group(make_cluster: ClusterMaker) -> None:
    """1,000 records, a committed offset, a committed transaction, and one that is open while its brokers die."""
    options = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
    cluster = make_cluster(3, **options)
    cluster.start()
    create_topic(cluster, "t", 2)
    plain = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "logger": quiet_logger()})
    for number in range(1000):
        plain.produce("t", str(number).encode(), partition=0)
    assert plain.flush(DEADLINE_SECONDS) == 0
    _commit_offset(cluster, 500)
    _commit(_producer(cluster), "committed")
    open_one = _producer(cluster, "open")
    open_one.begin_transaction()
    open_one.produce("t", b"decided later", partition=1)
    assert open_one.flush(DEADLINE_SECONDS) == 0
    for topic, partition in ((OFFSETS_TOPIC, 0), (TRANSACTIONS_TOPIC, 0), ("t", 0), ("t", 1)):
        killed = cluster.leader_of(topic, partition)
        cluster[killed].kill()
        cluster.leader_of(topic, partition, other_than=killed)
        cluster.restart([killed])
        cluster.wait_in_sync(topic, partition)
    assert _read(cluster, 0, "committed") == [*map(str, range(1000)), "committed"]
    assert _offset(cluster) == 500
    # The open one is there for readers at read_uncommitted. For the others it is once it has ended.
    assert _read(cluster, 1, "decided later", "read_uncommitted") == ["committed", "decided later"]
    assert _read(cluster, 1, "committed") == ["committed"]
    _until_known(lambda: open_one.commit_transaction(DEADLINE_SECONDS))
    assert _read(cluster, 1, "decided later") == ["committed", "decided later"]


def _commit_offset(cluster: BrokerCluster, offset: int) -> None:
    consumer = _consumer(cluster, "group")
    try:
        done = consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        assert [each.error for each in done or ()] == [None]
    finally:
        consumer.close()


def _offset(cluster: BrokerCluster) -> int:
    consumer = _consumer(cluster, "group")
    try:
        (found,) = consumer.committed([TopicPartition("t", 0)], timeout=DEADLINE_SECONDS)
        return found.offset
    finally:
        consumer.close()
