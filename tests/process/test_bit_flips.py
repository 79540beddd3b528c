"""Bits flip on the disk of a stopped broker of three: what others hold comes back, and what nobody holds is refused."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.process.acked_log import quiet_logger, read_all
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

_TOPIC = "flips"
_VALUE_BYTES = 300_000
_RECORDS = 12


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
