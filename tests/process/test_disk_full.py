"""Every broker's disk fills up: producers are refused, reads go on, and room on the disks ends it by itself."""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.process.acked_log import (
    AckedLog,
    LoadProducer,
    check_no_phantom,
    check_nothing_acked_is_lost,
    check_nothing_twice,
    quiet_logger,
    read_all,
)
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic, delete_topic
from tests.small_disks import small_disk

pytestmark = pytest.mark.process

_MIB = 1024 * 1024
_DISK_BYTES = 64 * _MIB
_RESERVE_BYTES = 24 * _MIB
_RECORD_BYTES = 100_000
_KEPT, _FILLER = "kept", "filler"


@pytest.fixture
def small_disks(make_cluster: ClusterMaker) -> Iterator[BrokerCluster]:
    """Return three brokers, not started, each with a small disk of its own; skips where nothing can be mounted."""
    cluster = make_cluster(3, **{"disk.reserve.bytes": _RESERVE_BYTES, "log.segment.bytes": _MIB})
    with ExitStack() as disks:
        for broker in cluster.brokers.values():
            broker.data_dir.mkdir()
            disks.enter_context(small_disk(broker.data_dir, _DISK_BYTES))
        # Before the disks go.
        disks.callback(cluster.stop)
        yield cluster


class _Filler:
    """Sends large records one after the other, and never again what was refused."""

    def __init__(self, bootstrap: str, topic: str, acks: str) -> None:
        self.log = AckedLog()
        self.error: KafkaError | None = None
        self._topic = topic
        self._name = f"{topic}-{acks}"
        options = {"bootstrap.servers": bootstrap, "acks": acks, "retries": 0, "linger.ms": 0, "logger": quiet_logger()}
        self._producer = Producer(options)

    def send(self) -> KafkaError | None:
        """Send one record and return why it was refused, if it was."""
        value = f"{self._name}-{len(self.log.sent):05d}-".encode().ljust(_RECORD_BYTES, b"x")
        self.log.sent.add(value)
        self.error = None
        self._producer.produce(self._topic, value, partition=0, on_delivery=self._on_delivery)
        assert self._producer.flush(DEADLINE_SECONDS) == 0
        return self.error

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        self.error = error
        self.log.on_delivery(error, message)

    def fill(self) -> None:
        """Send until the brokers refuse because of their disks."""
        for _ in range(3 * _DISK_BYTES // _RECORD_BYTES):
            error = self.send()
            if error is not None and error.code() == KafkaError.KAFKA_STORAGE_ERROR:
                return
        raise AssertionError(f"never refused; the last error is {self.error}")


def _free_bytes(cluster: BrokerCluster) -> list[int]:
    status = [os.statvfs(broker.data_dir) for broker in cluster.brokers.values()]
    return [each.f_bavail * each.f_frsize for each in status]


def _terms(cluster: BrokerCluster) -> dict[str, int]:
    return {topic: int((cluster.partition(topic, 0) or {})["term"]) for topic in (_KEPT, _FILLER)}


def test_full_disks_refuse_producers_and_nothing_else(small_disks: BrokerCluster):
    cluster = small_disks
    cluster.start()
    for topic in (_KEPT, _FILLER):
        create_topic(cluster, topic)
    logs: list[AckedLog] = []
    with LoadProducer(cluster.bootstrap, _KEPT, "before", acks="all", retries=0) as producer:
        producer.wait_acked(500)
        logs.append(producer.finish())
    terms = _terms(cluster)
    filler = _Filler(cluster.bootstrap, _FILLER, "all")
    filler.fill()

    # At both levels, in every partition, and for as long as the disks are full.
    for acks in ("all", "1"):
        refused = _Filler(cluster.bootstrap, _KEPT, acks)
        refused.fill()  # The other leader looks at the disks at a moment of its own.
        for _ in range(5):
            error = refused.send()
            assert error is not None
            assert error.code() == KafkaError.KAFKA_STORAGE_ERROR, error
        logs.append(refused.log)
    assert min(_free_bytes(cluster)) > 0, "what is kept in reserve is there for the brokers' own entries"
    assert all(broker.is_running for broker in cluster.brokers.values())
    assert _terms(cluster) == terms, "nobody has stepped down"
    check_nothing_acked_is_lost(read_all(cluster.bootstrap, _KEPT), logs[0])
    check_nothing_acked_is_lost(read_all(cluster.bootstrap, _FILLER), filler.log)

    # raft0 works: the topic can be deleted, and that makes room. Nobody starts anything again.
    with LoadProducer(cluster.bootstrap, _KEPT, "after", acks="all") as producer:
        delete_topic(cluster.bootstrap, _FILLER)
        eventually(lambda: f"room: {_free_bytes(cluster)}", lambda: min(_free_bytes(cluster)) > _RESERVE_BYTES)
        producer.wait_acked(500)
        logs.append(producer.finish())
    cluster.wait_in_sync(_KEPT, 0)
    records = read_all(cluster.bootstrap, _KEPT)
    for log in (logs[0], logs[-1]):
        check_nothing_acked_is_lost(records, log)
    check_no_phantom(records, logs)
    check_nothing_twice(records, logs[0])
