"""Bits flip on the disk of a stopped broker of three: what others hold comes back, and what nobody holds is refused.

And under a running broker: before the broker's check it finds them, later a client does.
"""

import contextlib
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.process.acked_log import quiet_logger, read_all
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

_TOPIC = "flips"
_VALUE_BYTES = 300_000
_RECORDS = 12
# What is read ahead of the readers of one log: `storage.read_ahead`.
_READ_AHEAD_RUNS = 8


def _produce(cluster: BrokerCluster, first: int, count: int) -> list[bytes]:
    values = [b"%d " % number + b"x" * _VALUE_BYTES for number in range(first, first + count)]
    config = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "logger": quiet_logger()}
    producer = Producer(config)
    failed = []
    for value in values:
        producer.produce(_TOPIC, value, on_delivery=lambda error, _: error and failed.append(error))
        producer.flush(30)
    assert not failed
    return values


def _segments(cluster: BrokerCluster, node: int) -> list[Path]:
    return sorted(path for path in (cluster[node].data_dir / "groups").glob("*-0/*.log"))


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def test_a_flipped_bit_in_a_closed_segment_comes_back_from_the_others(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3, **{"log.segment.bytes": 1024 * 1024})
    cluster.start()
    create_topic(cluster, _TOPIC)
    values = _produce(cluster, 0, _RECORDS)
    cluster.wait_in_sync(_TOPIC, 0)
    cluster[3].terminate()
    closed = _segments(cluster, 3)[1]
    _flip(closed, closed.stat().st_size // 2)
    for index_file in closed.parent.glob("*.index"):
        index_file.unlink()  # As if it had not been written yet: the segment is read at the start.
    values += _produce(cluster, _RECORDS, 2)

    cluster.restart([3])
    cluster.wait_ready()
    cluster.wait_in_sync(_TOPIC, 0)
    assert "come from the others" in cluster[3].log_text()
    eventually("the copies of damaged files are gone", lambda: not list(closed.parent.glob("*.damaged")) or None)
    # Everything can be read with the refilled broker and either of the others.
    cluster[1].terminate()
    cluster.leader_of(_TOPIC, 0, other_than=1)
    assert [record.value for record in read_all(cluster.bootstrap, _TOPIC)] == values


def test_a_flipped_bit_in_the_wal_of_the_kvstore_is_refused(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, _TOPIC)
    cluster[3].kill()
    wals = sorted((cluster[3].data_dir / "kvstore").glob("*.log"), key=lambda path: path.stat().st_size)
    _flip(wals[-1], 20)
    seen = len(cluster[3].log_text())
    cluster[3].start()
    assert cluster[3].wait_exit() == 1
    said = cluster[3].log_text()[seen:]
    assert "kvstore" in said, said
    assert "Traceback" not in said
    assert _produce(cluster, 0, 1)


@pytest.mark.parametrize("is_checked", [False, True], ids=["before", "after"])
def test_a_bit_that_flips_under_a_running_broker_is_found_by_it_before_its_check_and_by_the_client_after(
    make_cluster: ClusterMaker, is_checked: bool
) -> None:
    cluster = make_cluster(1, **{"read.cache.bytes": 0})
    cluster.start()
    create_topic(cluster, _TOPIC)
    # The newest 16 MiB stay in memory.
    values = _produce(cluster, 0, 80)
    if is_checked:
        assert [record.value for record in read_all(cluster.bootstrap, _TOPIC)] == values
    segment = max(_segments(cluster, 1), key=lambda path: path.stat().st_size)
    with segment.open("r+b") as file:
        file.seek(10 * _VALUE_BYTES)
        (byte,) = file.read(1)
        file.seek(10 * _VALUE_BYTES)
        file.write(bytes([byte ^ 0x10]))
    sent_before = _metric(cluster, "raftka_sendfile_bytes_total")
    values_read, error = _read_until_refused(cluster)
    assert values_read == values[: len(values_read)]
    assert 5 < len(values_read) < 12
    if is_checked:
        # What the broker has checked once it sends as it is now, except for what it read ahead of the first reader. A
        # scrape is shared for a second.
        assert error == KafkaError._BAD_MSG
        eventually(
            "the damaged record is sent",
            lambda: _metric(cluster, "raftka_sendfile_bytes_total") > sent_before + _VALUE_BYTES,
        )
        assert "damage" not in cluster[1].log_text()
        # Whoever goes on there, as a consumer does that is started again, has the broker look. What came whole in the
        # response with the damaged batch, librdkafka has not handed on. A reader may get what was read ahead of the
        # first one, before the bit flipped: that is whole, and the next reader does not get it again.
        first = len(values_read)
        for _ in range(_READ_AHEAD_RUNS + 1):
            rest, error = _read_until_refused(cluster, first, len(values))
            assert error == KafkaError.KAFKA_STORAGE_ERROR
            assert rest == values[first:][: len(rest)]
            if first + len(rest) < len(values):
                break
        assert first + len(rest) < 12
    else:
        # What is sent without a check then was found whole in this life, for example by a request before.
        assert error == KafkaError.KAFKA_STORAGE_ERROR
    eventually("the broker tells the damage", lambda: "a read found damage" in cluster[1].log_text())


def _read_until_refused(cluster: BrokerCluster, first: int = 0, end: int | None = None) -> tuple[list[bytes], int]:
    """Read from an offset on with checks of each batch until an error, or `end`; return the values and the error."""
    config = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "reader",
        "check.crcs": True,
        "enable.auto.commit": False,
        "fetch.error.backoff.ms": 10,
        "logger": quiet_logger(),
    }
    consumer = Consumer(config)
    errors: list[int] = []
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(_TOPIC, 0, first)])

        def found() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(message.value())
            elif message is not None:
                errors.append(message.error().code())
            return bool(errors) or first + len(values) == end

        # librdkafka tells its application of bad messages, but tries again where the broker refuses.
        with contextlib.suppress(AssertionError):
            eventually("a batch is refused", found, 8)
    finally:
        consumer.close()
    return values, errors[0] if errors else KafkaError.KAFKA_STORAGE_ERROR


def _metric(cluster: BrokerCluster, name: str) -> float:
    with urllib.request.urlopen(f"http://{cluster[1].admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))
