"""Records are deleted, by clients and by retention: the start moves for every reader, for ever, and the disks get room."""

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.process import kafka_python
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.command_line import raftka
from tests.process.kafka_topics import admin_client, alter, create_topic

pytestmark = pytest.mark.process

_MIB = 1024 * 1024
_VALUE_BYTES = 300_000  # Three of them fill a segment.
_SMALL_SEGMENTS = {"segment.bytes": _MIB}


@pytest.fixture(scope="module")
def cluster(shared_clusters: ClusterMaker) -> BrokerCluster:
    """Three brokers that look for what has outlived its retention all the time."""
    cluster = shared_clusters(3, **{"log.retention.check.interval.ms": 300})
    cluster.start()
    return cluster


def produce(cluster: BrokerCluster, topic: str, first: int, count: int) -> None:
    """Write records that begin with their offset, one batch each, at acks=all."""
    bootstrap = ",".join(broker.kafka for broker in cluster.running)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "logger": quiet_logger()})
    failed: list[KafkaError] = []
    for number in range(first, first + count):
        value = b"%d " % number + b"x" * _VALUE_BYTES
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: error and failed.append(error))
        assert producer.flush(DEADLINE_SECONDS) == 0
    assert not failed


def watermarks(cluster: BrokerCluster, topic: str) -> tuple[int, int]:
    """Return earliest and latest offset, as the leader says."""
    consumer = new_consumer(cluster)
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_SECONDS)
    finally:
        consumer.close()
    return low, high


def new_consumer(cluster: BrokerCluster) -> Consumer:
    options = {
        "bootstrap.servers": ",".join(broker.kafka for broker in cluster.running),
        "group.id": "nobody",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "logger": quiet_logger(),
    }
    return Consumer(options)


def first_read(cluster: BrokerCluster, topic: str, offset: int) -> tuple[int, bytes]:
    """Return offset and number of the first record that a consumer gets who wants to go on at `offset`."""
    consumer = new_consumer(cluster)
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        message = eventually(f"a record of {topic}", lambda: consumer.poll(1.0))
        assert message.error() is None, message.error()
        return message.offset(), message.value().split()[0]
    finally:
        consumer.close()


def disk_usage(cluster: BrokerCluster) -> list[int]:
    """Return the bytes of all segments of each running broker, without the room behind the last entry.

    Logs that hold hardly anything are left out: a consumer that names a group has `__consumer_offsets` made meanwhile.
    """
    folders = [broker.data_dir / "groups" for broker in cluster.running]
    sizes = [[sum(map(segment_size, group.glob("*.log"))) for group in folder.iterdir()] for folder in folders]
    return [sum(size for size in groups if size > _VALUE_BYTES // 2) for groups in sizes]


def segment_size(path: Path) -> int:
    try:
        return len(path.read_bytes().rstrip(b"\0"))
    except FileNotFoundError:
        return 0  # Retention deleted it since the folder was listed.


def wait_freed(cluster: BrokerCluster, before: list[int], size: int) -> None:
    """Wait until every broker's disk holds `size` bytes less than before."""
    eventually(
        lambda: f"{size} bytes less than {before}, now {disk_usage(cluster)}",
        lambda: all(now <= then - size for now, then in zip(disk_usage(cluster), before, strict=True)),
    )


def delete_before(cluster: BrokerCluster, topic: str, offset: int) -> int:
    """Delete with confluent-kafka; return the new earliest offset."""
    admin = admin_client(",".join(broker.kafka for broker in cluster.running))
    [deleted] = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    return int(deleted.result(DEADLINE_SECONDS).low_watermark)


def let_lead(cluster: BrokerCluster, topic: str, target: int) -> None:
    if cluster.leader_of(topic, 0) != target:
        options = ("--brokers", cluster.bootstrap, "--target", str(target))
        raftka("partition", "transfer-leadership", topic, "0", *options)
        eventually(f"node {target} to lead", lambda: cluster.leader_of(topic, 0) == target)


def check_start_is_kept(cluster: BrokerCluster, topic: str, expected: tuple[int, int]) -> None:
    """The start is the same at every leader, and after a restart of the one that has led."""
    for target in (1, 2, 3):
        let_lead(cluster, topic, target)
        assert watermarks(cluster, topic) == expected
    cluster[3].kill()
    cluster.leader_of(topic, 0, other_than=3)
    assert watermarks(cluster, topic) == expected
    cluster.restart([3])
    cluster.wait_in_sync(topic, 0)
    let_lead(cluster, topic, 3)
    assert watermarks(cluster, topic) == expected


def test_deleted_records_are_gone_for_every_reader_and_leader(cluster: BrokerCluster) -> None:
    topic = "deleted"
    create_topic(cluster, topic, **_SMALL_SEGMENTS)
    produce(cluster, topic, 0, 12)
    cluster.wait_in_sync(topic, 0)
    before = disk_usage(cluster)
    assert delete_before(cluster, topic, 7) == 7
    assert delete_before(cluster, topic, 3) == 7, "it never goes back"
    assert watermarks(cluster, topic) == (7, 12)
    assert first_read(cluster, topic, 0) == (7, b"7")
    wait_freed(cluster, before, 6 * _VALUE_BYTES)
    with pytest.raises(KafkaException) as refused:
        delete_before(cluster, topic, 13)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE
    check_start_is_kept(cluster, topic, (7, 12))
    assert delete_before(cluster, topic, OFFSET_END) == 12
    produce(cluster, topic, 12, 1)
    assert first_read(cluster, topic, 5) == (12, b"12")


@kafka_python.with_kafka_python
def test_kafka_python_deletes_records(cluster: BrokerCluster) -> None:
    topic = "deleted-by-python"
    create_topic(cluster, topic)
    produce(cluster, topic, 0, 3)
    client = kafka_python.KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        client.delete_records({kafka_python.TopicPartition(topic, 0): 2})
    finally:
        client.close()
    assert watermarks(cluster, topic) == (2, 3)


def test_retention_by_size_keeps_the_newest_segments_on_every_disk(cluster: BrokerCluster) -> None:
    topic = "by-size"
    create_topic(cluster, topic, **_SMALL_SEGMENTS)
    produce(cluster, topic, 0, 12)
    cluster.wait_in_sync(topic, 0)
    before = disk_usage(cluster)
    alter(cluster, topic, retention_bytes=str(_MIB))
    # Four segments of three records: the last one and the one before hold more than is to be kept.
    eventually("the oldest segments gone", lambda: watermarks(cluster, topic) == (6, 12))
    wait_freed(cluster, before, 5 * _VALUE_BYTES)
    assert first_read(cluster, topic, 2) == (6, b"6")
    check_start_is_kept(cluster, topic, (6, 12))


def test_retention_by_time_reaches_the_newest_record(cluster: BrokerCluster) -> None:
    topic = "by-time"
    create_topic(cluster, topic, **_SMALL_SEGMENTS)
    produce(cluster, topic, 0, 7)
    cluster.wait_in_sync(topic, 0)
    before = disk_usage(cluster)
    alter(cluster, topic, retention_ms="1000")
    eventually("everything gone", lambda: watermarks(cluster, topic) == (7, 7))
    wait_freed(cluster, before, 6 * _VALUE_BYTES)
    alter(cluster, topic, retention_ms="-1")
    produce(cluster, topic, 7, 1)
    assert first_read(cluster, topic, 1) == (7, b"7")
    check_start_is_kept(cluster, topic, (7, 8))


def test_a_broker_that_was_away_for_longer_than_the_retention_takes_a_snapshot(cluster: BrokerCluster) -> None:
    topic = "away"
    create_topic(cluster, topic, **_SMALL_SEGMENTS)
    produce(cluster, topic, 0, 2)
    cluster.wait_in_sync(topic, 0)
    cluster[3].kill()
    cluster.leader_of(topic, 0, other_than=3)
    produce(cluster, topic, 2, 13)
    alter(cluster, topic, retention_bytes=str(_MIB))
    eventually("what it lacks is gone", lambda: watermarks(cluster, topic)[0] > 3)
    expected = watermarks(cluster, topic)
    cluster.restart([3])
    cluster.wait_in_sync(topic, 0)
    assert "installs a snapshot" in cluster[3].log_text()
    let_lead(cluster, topic, 3)
    assert watermarks(cluster, topic) == expected
    first = expected[0]
    assert first_read(cluster, topic, 0) == (first, b"%d" % first)
