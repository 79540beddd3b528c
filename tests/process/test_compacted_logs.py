"""A compacted topic on three brokers: what stays of many overwrites, while a leader is killed."""

import re
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import (
    DEADLINE_SECONDS,
    BrokerCluster,
    BrokerProcess,
    ClusterMaker,
    eventually,
)
from tests.process.command_line import raftka
from tests.process.former_version import former_python
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

_MIB = 1024 * 1024
_REMOVED = re.compile(r"^raftka_compaction_removed_records_total(?:{[^}]*})? (\S+)$", re.MULTILINE)
_KEYS = 10
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": _MIB,
    "min.cleanable.dirty.ratio": 0.01,
    # One tombstone is small beside the segments: it goes along with what else is removed.
    "delete.retention.ms": 0,
}


@pytest.fixture(scope="module")
def cluster(shared_clusters: ClusterMaker) -> BrokerCluster:
    """Three brokers that have compaction, and look for logs to compact all the time."""
    options = {"log.cleaner.backoff.ms": 100}
    cluster = shared_clusters(3, **options, **{"log.cleaner.io.max.bytes.per.second": 0})
    cluster.start()
    return cluster


def overwrite(
    cluster: BrokerCluster, topic: str, first: int, count: int, *, without: bytes = b""
) -> dict[bytes, bytes | None]:
    """Write records to ten keys, or to all but one of them, at acks=all; return the newest value of each."""
    options = {"acks": "all", "enable.idempotence": True, "logger": quiet_logger()}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "queue.buffering.max.messages": 200_000, **options})
    failed: list[KafkaError] = []
    newest: dict[bytes, bytes | None] = {}
    for number in range(first, first + count):
        key, value = b"key-%d" % (number % _KEYS), b"%050d" % number
        if key == without:
            continue
        while True:
            try:
                producer.produce(topic, value, key, 0, on_delivery=lambda error, _: error and failed.append(error))
                break
            except BufferError:
                producer.poll(0.1)
        newest[key] = value
    assert producer.flush(4 * DEADLINE_SECONDS) == 0
    assert not failed
    return newest


def read(cluster: BrokerCluster, topic: str) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield offset, key and value of every record that is there, up to the end."""
    options = {"bootstrap.servers": cluster.bootstrap, "group.id": "nobody", "logger": quiet_logger()}
    consumer = Consumer({**options, "enable.auto.commit": False, "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return
            yield message.offset(), message.key(), message.value()
        raise AssertionError(f"the end of {topic} was not read")
    finally:
        consumer.close()


def sizes(cluster: BrokerCluster) -> list[int]:
    """Return the bytes of the directory of the largest group of each running broker."""
    return [
        max(sum(map(size_of, group.iterdir())) for group in (broker.data_dir / "groups").iterdir())
        for broker in cluster.running
    ]


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # A pass has removed it since the folder was listed.


def test_a_million_overwrites_of_ten_keys_leave_two_segments_on_each_broker(cluster: BrokerCluster) -> None:
    create_topic(cluster, "overwritten", **_COMPACTED)
    newest = overwrite(cluster, "overwritten", 0, 1_000_000)
    assert len(newest) == _KEYS
    eventually(
        lambda: f"two segments on each broker: {sizes(cluster)}",
        lambda: max(sizes(cluster)) <= 2 * _MIB + 64 * 1024 or None,
        120.0,
    )
    found = list(read(cluster, "overwritten"))
    assert {key: value for _, key, value in found} == newest
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == 999_999
    described = raftka("topic", "describe", "overwritten", "--brokers", cluster.bootstrap, "--admin", cluster[1].admin)
    assert "CLEANED" in described.stdout, described


def test_what_is_deleted_stays_deleted_while_leaders_are_killed(cluster: BrokerCluster) -> None:
    topic = "deleted"
    create_topic(cluster, topic, **_COMPACTED)
    overwrite(cluster, topic, 0, 60_000)
    options = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "logger": quiet_logger()}
    producer = Producer(options)
    producer.produce(topic, None, b"key-3", 0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    newest: dict[bytes, bytes | None] = {}
    for number in range(3):
        killed = cluster.leader_of(topic, 0)
        cluster[killed].kill()
        newest |= overwrite(cluster, topic, (number + 1) * 100_000, 60_000, without=b"key-3")
        cluster.restart([killed])
        cluster.wait_in_sync(topic, 0)
    values = {key: value for _, key, value in read(cluster, topic)}
    assert values.pop(b"key-3", None) is None
    assert values == newest


@contextmanager
def overwriting(cluster: BrokerCluster, topic: str) -> Iterator[dict[bytes, bytes | None]]:
    """Overwrite keys of a topic meanwhile; the newest values are complete behind the block."""
    newest: dict[bytes, bytes | None] = {}
    has_to_end = threading.Event()

    def write() -> None:
        first = 0
        while not has_to_end.is_set():
            newest.update(overwrite(cluster, topic, first, 5_000))
            first += 5_000

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        try:
            yield newest
        finally:
            has_to_end.set()
        written.result(8 * DEADLINE_SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_topic_that_is_written_to_is_compacted_once_the_feature_is_raised(
    make_cluster: ClusterMaker, tmp_path: Path
) -> None:
    cluster = make_cluster(3)
    former = former_python(tmp_path)
    for broker in cluster.brokers.values():
        broker.python = former
    cluster.start()
    topic, at = "raised", ("--brokers", cluster.bootstrap)
    create_topic(cluster, topic, **{"segment.bytes": _MIB})
    settings = [word for key, value in _COMPACTED.items() for word in ("--set", f"{key}={value}")]
    to_compact = ("topic", "alter-config", topic, *settings, *at)
    with overwriting(cluster, topic) as newest:
        for broker in cluster.brokers.values():
            broker.config |= {"log.cleaner.backoff.ms": 100, "log.cleaner.io.max.bytes.per.second": 0}
            broker.terminate()
            broker.python = sys.executable
            cluster.restart([broker.node_id])
        # That all brokers can do it does not decide it.
        assert "raftka.compaction" in raftka(*to_compact, code=1).stderr
        raftka("cluster", "features", "upgrade", "raftka.compaction=1", *at)
        raftka(*to_compact)
        eventually("each broker has removed records", lambda: all(map(removed, cluster.running)) or None, 120.0)
    assert {key: value for _, key, value in read(cluster, topic)} == newest


def removed(broker: BrokerProcess) -> float:
    """Return how many records the passes of a broker have removed."""
    with urllib.request.urlopen(f"http://{broker.admin}/metrics", timeout=5.0) as answer:
        found = _REMOVED.findall(answer.read().decode())
    return sum(map(float, found))
