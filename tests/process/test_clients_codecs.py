"""What librdkafka and kcat produce with every codec at every acks level is what they read back."""

from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.process.acked_log import ReadRecord, high_watermark, new_consumer, quiet_logger, read_all
from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.kafka_topics import create_topic
from tests.process.kcat import consume, kcat, metadata, needs_kcat

pytestmark = pytest.mark.process

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "all")
CREATE_TIME = 1
T0_MS = 1_700_000_000_000
# Records of that time are older than a topic keeps them by default.
FOR_EVER = {"retention.ms": "-1"}


def _messages(count: int) -> list[dict[str, Any]]:
    """Return records with all that a record can have: no key, empty and null values, headers, timestamps."""
    return [
        {
            "key": None if number % 7 == 3 else f"key-{number}".encode(),
            "value": None if number % 5 == 4 else b"" if number % 11 == 1 else f"value-{number}".encode() * 20,
            "headers": [("trace", f"{number}".encode()), ("trace", b""), ("none", None)] if number % 3 else [],
            "timestamp": T0_MS + number * 1_000,
        }
        for number in range(count)
    ]


def _read_when_visible(cluster: BrokerCluster, topic: str, count: int) -> list[ReadRecord]:
    """Return the records once there are `count`: acks=0 and 1 do not wait until they are visible."""
    eventually(f"{count} visible records", lambda: high_watermark(cluster.bootstrap, topic) >= count)
    return read_all(cluster.bootstrap, topic)


@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_back_what_it_produced(shared_cluster: BrokerCluster, codec: str, acks: str):
    topic, messages = f"rd-{codec}-{acks}", _messages(200)
    create_topic(shared_cluster, topic, **FOR_EVER)
    reports: list[tuple[Any, int]] = []
    producer = Producer(
        {
            "bootstrap.servers": shared_cluster.bootstrap,
            "acks": acks,
            "compression.type": codec,
            "linger.ms": 20,
            "batch.num.messages": 64,
            "logger": quiet_logger(),
        }
    )
    for message in messages:
        producer.produce(
            topic, partition=0, on_delivery=lambda error, sent: reports.append((error, sent.offset())), **message
        )
    assert producer.flush(60) == 0

    records = _read_when_visible(shared_cluster, topic, len(messages))
    assert [error for error, _ in reports] == [None] * len(messages)
    if acks != "0":  # acks=0 reports no offsets.
        assert [offset for _, offset in reports] == list(range(len(messages)))
    assert records == [
        ReadRecord(
            number,
            message["key"],
            message["value"],
            tuple(message["headers"]),
            (CREATE_TIME, message["timestamp"]),
        )
        for number, message in enumerate(messages)
    ]


def test_a_timestamp_finds_the_first_record_at_or_after_it(shared_cluster: BrokerCluster):
    topic, messages = "by-time", _messages(100)
    create_topic(shared_cluster, topic, **FOR_EVER)
    producer = Producer({"bootstrap.servers": shared_cluster.bootstrap, "batch.num.messages": 16, "linger.ms": 20})
    for message in messages:
        producer.produce(topic, partition=0, **message)
    assert producer.flush(60) == 0
    consumer = new_consumer(shared_cluster.bootstrap)
    try:
        asked = {T0_MS - 5: 0, T0_MS: 0, T0_MS + 41_000: 41, T0_MS + 41_001: 42, T0_MS + 99_000: 99}
        for timestamp, offset in asked.items():
            [found] = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=30)
            assert found.offset == offset
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, T0_MS + 99_001)], timeout=30)
        assert found.offset == -1
    finally:
        consumer.close()


@needs_kcat
def test_kcat_reads_back_every_codec_from_any_offset(shared_cluster: BrokerCluster):
    topic, bootstrap = "kcat-codecs", shared_cluster.bootstrap
    create_topic(shared_cluster, topic)
    sent: list[str] = []
    for acks in ACKS:
        for codec in CODECS:
            values = [f"{acks}-{codec}-{number:03d}-{'x' * 100}" for number in range(100)]
            sent += values
            # One batch of 100: an offset that is no multiple of 100 lies in the middle of one.
            options = ("-X", f"acks={acks}", "-X", "linger.ms=100", "-z", codec)
            kcat(bootstrap, "-P", "-t", topic, "-p", "0", *options, stdin="\n".join(values) + "\n")
        _read_when_visible(shared_cluster, topic, len(sent))

    assert consume(bootstrap, topic, "beginning") == sent
    assert consume(bootstrap, topic, "end") == []
    assert consume(bootstrap, topic, "-10") == sent[-10:]
    for offset in (1, 250, 799, 1_450, len(sent) - 1, len(sent)):
        assert consume(bootstrap, topic, str(offset)) == sent[offset:]
    assert consume(bootstrap, topic, "150", "-c", "20") == sent[150:170]


@needs_kcat
def test_kcat_writes_keys_headers_and_tombstones(shared_cluster: BrokerCluster):
    topic, bootstrap = "kcat-keys", shared_cluster.bootstrap
    create_topic(shared_cluster, topic)
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", "-Z", "-H", "a=1", stdin="k1:v1\nk2:\n")
    records = _read_when_visible(shared_cluster, topic, 2)
    assert [(record.key, record.value, record.headers) for record in records] == [
        (b"k1", b"v1", (("a", b"1"),)),
        (b"k2", None, (("a", b"1"),)),
    ]
    shown = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q", "-f", "%o %k %S %h\n")
    assert shown.splitlines() == ["0 k1 2 a=1", "1 k2 -1 a=1"]


@needs_kcat
def test_kcat_lists_brokers_topics_and_leaders(shared_cluster: BrokerCluster):
    create_topic(shared_cluster, "kcat-listed", partitions=3)
    seen = metadata(shared_cluster.bootstrap)
    assert {(broker["id"], broker["name"]) for broker in seen["brokers"]} == {
        (node, broker.kafka) for node, broker in shared_cluster.brokers.items()
    }
    [topic] = [topic for topic in seen["topics"] if topic["topic"] == "kcat-listed"]
    assert [partition["partition"] for partition in topic["partitions"]] == [0, 1, 2]
    for partition in topic["partitions"]:
        assert partition["leader"] in shared_cluster.brokers
        assert sorted(replica["id"] for replica in partition["replicas"]) == [1, 2, 3]
        assert partition["leader"] in {replica["id"] for replica in partition["isrs"]}
