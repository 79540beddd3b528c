"""Idempotent producers while leaders die: every record is in the log once, in the order in which it was sent."""

import asyncio
import threading
from contextlib import ExitStack

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Producer

from tests.process.acked_log import AckedLog, LoadProducer, check_nothing_acked_is_lost, quiet_logger, read_all
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_python import KafkaProducer, with_kafka_python
from tests.process.kafka_topics import admin_client, create_topic, topics_at

pytestmark = pytest.mark.process

TOPIC = "orders"
IDEMPOTENT = {"enable.idempotence": True, "acks": "all", "max.in.flight.requests.per.connection": 5}


@pytest.fixture
def cluster(make_cluster: ClusterMaker) -> BrokerCluster:
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, TOPIC)
    return cluster


def check_once_and_in_order(cluster: BrokerCluster, log: AckedLog) -> None:
    """Everything that was sent is there, once, in order; what was acknowledged is where it was acknowledged."""
    cluster.wait_in_sync(TOPIC, 0)
    assert log.failed == {}
    records = read_all(cluster.bootstrap, TOPIC)
    values = [record.value for record in records]
    assert len(values) == len(log.sent), f"{len(values)} records for {len(log.sent)} sends"
    assert values == sorted(log.sent)
    check_nothing_acked_is_lost(records, log)


def test_killed_leaders_leave_no_duplicate_and_no_gap(cluster: BrokerCluster):
    with ExitStack() as stack:
        producer = stack.enter_context(LoadProducer(cluster.bootstrap, TOPIC, "record", **IDEMPOTENT))
        for _ in range(2):
            producer.wait_acked(400)
            victim = cluster.leader_of(TOPIC, 0)
            cluster[victim].kill()
            cluster.leader_of(TOPIC, 0, other_than=victim)
            producer.wait_acked(200)
            cluster.restart([victim])
        log = producer.finish()
    check_once_and_in_order(cluster, log)


def test_the_death_of_all_brokers_leaves_no_duplicate_and_no_gap(cluster: BrokerCluster):
    with ExitStack() as stack:
        producer = stack.enter_context(LoadProducer(cluster.bootstrap, TOPIC, "record", **IDEMPOTENT))
        for _ in range(2):
            producer.wait_acked(400)
            for broker in cluster.brokers.values():
                broker.kill()
            cluster.restart(cluster.brokers)
            producer.wait_acked(400)
        log = producer.finish()
    check_once_and_in_order(cluster, log)


def test_leaders_that_stop_in_order_leave_no_duplicate_and_no_gap(cluster: BrokerCluster):
    with ExitStack() as stack:
        producer = stack.enter_context(LoadProducer(cluster.bootstrap, TOPIC, "record", **IDEMPOTENT))
        for _ in range(2):
            producer.wait_acked(400)
            victim = cluster.leader_of(TOPIC, 0)
            cluster[victim].terminate()
            producer.wait_acked(200)
            cluster.restart([victim])
        log = producer.finish()
    check_once_and_in_order(cluster, log)


RECORDS = 3_000


def _kill_leader_once(cluster: BrokerCluster) -> None:
    victim = cluster.leader_of(TOPIC, 0)
    cluster[victim].kill()
    cluster.leader_of(TOPIC, 0, other_than=victim)
    cluster.restart([victim])


def _check_values(cluster: BrokerCluster) -> None:
    values = [record.value for record in read_all(cluster.bootstrap, TOPIC)]
    assert values == [b"%06d" % number for number in range(RECORDS)]


@with_kafka_python
def test_kafka_python_writes_each_record_once(cluster: BrokerCluster):
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap.split(","), enable_idempotence=True, linger_ms=2, delivery_timeout_ms=60_000
    )
    killer = threading.Thread(target=_kill_leader_once, args=[cluster])
    try:
        sends = []
        for number in range(RECORDS):
            sends.append(producer.send(TOPIC, b"%06d" % number, partition=0))
            if number == RECORDS // 3:
                sends[-1].get(30)
                killer.start()
            if number % 100 == 0:
                sends[-1].get(60)
        for send in sends:
            send.get(60)
        killer.join(60)
    finally:
        producer.close(10)
    _check_values(cluster)


def test_aiokafka_writes_each_record_once(cluster: BrokerCluster):
    async def produce() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap, enable_idempotence=True, linger_ms=2, request_timeout_ms=60_000
        )
        await producer.start()
        try:
            killer = None
            sends = []
            for number in range(RECORDS):
                sends.append(await producer.send(TOPIC, b"%06d" % number, partition=0))
                if number == RECORDS // 3:
                    killer = asyncio.create_task(asyncio.to_thread(_kill_leader_once, cluster))
                if number % 100 == 0:
                    await sends[-1]
            await asyncio.gather(*sends)
            assert killer is not None
            await killer
        finally:
            await producer.stop()

    asyncio.run(produce())
    _check_values(cluster)


def test_a_producer_outlives_its_topic_and_writes_to_the_next_of_that_name(cluster: BrokerCluster):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "logger": quiet_logger(), **IDEMPOTENT})
    failed: list[str] = []

    def note(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    for number in range(3):
        for _ in range(50):
            producer.produce(TOPIC, b"%d" % number, on_delivery=note)
        assert producer.flush(60) == 0
        assert failed == []
        if number < 2:
            admin = admin_client(cluster.bootstrap)
            admin.delete_topics([TOPIC])[TOPIC].result(60)
            eventually("the topic gone", lambda: TOPIC not in topics_at(cluster.bootstrap))
            create_topic(cluster, TOPIC)
    assert [record.value for record in read_all(cluster.bootstrap, TOPIC)] == [b"2"] * 50
