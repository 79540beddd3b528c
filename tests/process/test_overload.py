"""Clients that take memory and connections and give nothing back: the broker stays small and serves the others."""

import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import Producer

from raftka.admin_client import get_json
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import (
    ADMIN_PORT,
    DEADLINE_SECONDS,
    KAFKA_PORT,
    BrokerCluster,
    BrokerProcess,
    ClusterMaker,
)
from tests.process.hostile_frames import half_open
from tests.process.kafka_topics import create_topic

pytestmark = [pytest.mark.process, pytest.mark.slow]

MIB = 1024 * 1024
TOPIC = "served"
RSS_MAX = 400 * MIB
SLOW_READERS, BIG_FRAMES, HALF_OPEN = 30, 10, 1_500
SENT_OF_EACH_FRAME = 30 * MIB
WATCH_SECONDS = 6.0
_FETCH, _FETCH_VERSION = 1, 4


def slow_fetch(topic: str) -> bytes:
    """Return a Fetch for all of partition 0."""
    name = topic.encode()
    body = struct.pack(">iiiib", -1, 100, 1, 2**31 - 1, 0)
    body += struct.pack(">i", 1) + struct.pack(">h", len(name)) + name
    body += struct.pack(">i", 1) + struct.pack(">iqi", 0, 0, 2**31 - 1)
    header = struct.pack(">hhih", _FETCH, _FETCH_VERSION, 7, 1) + b"x"
    return struct.pack(">i", len(header) + len(body)) + header + body


@pytest.fixture(scope="module")
def target(shared_clusters: ClusterMaker) -> Iterator[BrokerCluster]:
    """A cluster of one, with 60 MB in its topic."""
    # What is written beside the test fills no read cache: memory is that of the clients under test.
    cluster = shared_clusters(1, **{"read.cache.bytes": 0})
    cluster.start()
    create_topic(cluster, TOPIC)
    producer = new_producer(cluster)
    for _ in range(60):
        producer.produce(TOPIC, b"x" * 900_000, partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    yield cluster
    cluster.stop()


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * HALF_OPEN if hard == resource.RLIM_INFINITY else min(2 * HALF_OPEN, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def new_producer(cluster: BrokerCluster) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "logger": quiet_logger()})


@contextmanager
def watched(cluster: BrokerCluster) -> Iterator[None]:
    """After the attack of the block has begun: others are served within seconds, in bounded memory, for a while."""
    broker: BrokerProcess = cluster[1]
    before = len(broker.log_text().splitlines())
    producer = new_producer(cluster)
    yield
    deadline = time.monotonic() + WATCH_SECONDS
    while time.monotonic() < deadline:
        for size in (10, 200_000):
            reports: list[object] = []
            producer.produce(TOPIC, b"y" * size, partition=0, on_delivery=lambda error, _, to=reports: to.append(error))
            begin = time.monotonic()
            assert producer.flush(10) == 0, f"{size} bytes are not taken{broker.log_tail()}"
            assert reports == [None]
            assert time.monotonic() - begin < 5.0
        assert broker.rss_bytes() < RSS_MAX, f"{broker.rss_bytes() // MIB} MiB"
        assert get_json(broker.admin, "/v1/status/ready", timeout=10)[0] == 200
    assert broker.is_running
    assert len(broker.log_text().splitlines()) - before < 100, broker.log_tail()


def test_readers_that_take_nothing(target: BrokerCluster):
    with ExitStack() as stack, watched(target):
        for _ in range(SLOW_READERS):
            stack.enter_context(half_open(target[1].host, KAFKA_PORT, slow_fetch(TOPIC)))


def test_big_requests_that_never_end(target: BrokerCluster):
    with ExitStack() as stack, watched(target):
        for _ in range(BIG_FRAMES):
            connection = stack.enter_context(half_open(target[1].host, KAFKA_PORT, struct.pack(">i", 99 * MIB)))
            # Whom the broker does not read must not keep this test.
            connection.settimeout(0.3)
            send_as_far_as_taken(connection)


def send_as_far_as_taken(connection: socket.socket) -> None:
    part, sent = b"z" * MIB, 0
    while sent < SENT_OF_EACH_FRAME:
        try:
            connection.sendall(part)
        except TimeoutError:
            return
        sent += len(part)


@pytest.mark.parametrize(("port", "data"), [(KAFKA_PORT, b"\0\0"), (ADMIN_PORT, b"GET / HT")])
def test_half_open_connections(target: BrokerCluster, port: int, data: bytes):
    if port == ADMIN_PORT:
        # Its connections are few: what is open keeps others out until it is ended, and Kafka clients not at all.
        with ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(half_open(target[1].host, port, data))
            assert get_json(target[1].admin, "/v1/status/ready", timeout=10)[0] == 200
        return
    before = target[1].rss_bytes()
    with ExitStack() as stack, watched(target):
        for _ in range(HALF_OPEN):
            try:
                stack.enter_context(half_open(target[1].host, port, data))
            except ConnectionResetError:
                continue  # One too many for this port: the broker may say so at any moment.
    assert target[1].rss_bytes() - before < HALF_OPEN * 40 * 1024
