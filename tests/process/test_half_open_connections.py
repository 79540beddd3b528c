"""Ten thousand connections that say nothing, or half a word: the broker stays small and serves the others."""

import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from raftka.admin_client import get_json
from tests.process.acked_log import LoadProducer, new_consumer
from tests.process.broker_processes import (
    ADMIN_PORT,
    KAFKA_PORT,
    RPC_PORT,
    BrokerCluster,
    BrokerProcess,
    ClusterMaker,
    eventually,
)
from tests.process.hostile_frames import API_VERSIONS, kafka_frame, read_kafka_response
from tests.process.kafka_topics import create_topic

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "served"
# `connections_max` of a broker.
KAFKA_MAX = 10_000
CONNECTIONS = KAFKA_MAX + 100
# Of this process: the connections, and what else it has open.
DESCRIPTORS = CONNECTIONS + 1_000
KIB = 1024
# What the admin port takes, of that.
ADMIN_MAX = 256
# User space only: a connection's transport, protocol and timer.
RSS_PER_CONNECTION = 24 * KIB
LOG_LINES_MAX = 300
# `LinkOptions.max_handshakes`, and what a listener accepts in a few steps of 1,024; one more closes the oldest.
HANDSHAKES_MAX = 256 + 4 * 1_024
CONNECT_TIMEOUT = 20.0
# Two sides of a TCP connection and three steps of a broker's loop.
NEW_CLIENT_SECONDS = 2.0
# Nobody waits longer than where a leader dies: an election timeout and its draw (3 s), a client that looks for the new
# leader and connects (1.5 s), and how long a busy machine takes. Accepting ten thousand takes a third of it.
FAILOVER_SECONDS = 6.0


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        pytest.skip(f"{DESCRIPTORS} open files are needed, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def target(shared_clusters: ClusterMaker) -> Iterator[BrokerCluster]:
    """Three brokers, so that node links have something to do."""
    # What is written beside the test fills no read cache: memory is that of the clients under test.
    cluster = shared_clusters(3, **{"read.cache.bytes": 0})
    cluster.start()
    create_topic(cluster, TOPIC)
    yield cluster
    cluster.stop()


def open_half(stack: ExitStack, broker: BrokerProcess, port: int, data: bytes, number: int) -> socket.socket | None:
    """Return a connection that has said `data`; None if it was ended at once.

    Few source ports are left in so short a time, so every thousand connections come from another address.
    """
    source = (f"{broker.host.rpartition('.')[0]}.{100 + number // 1_000}", 0)
    try:
        connection = socket.create_connection((broker.host, port), CONNECT_TIMEOUT, source)
        stack.callback(connection.close)
        connection.sendall(data)
    except ConnectionError:
        return None
    return connection


def open_descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def is_ended(connection: socket.socket) -> bool:
    """Whether the broker has closed or reset the connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def read_past(consumer: Consumer, offset: int) -> None:
    """Read on until behind the offset. How much that is depends on the machine; how long nothing comes must not."""
    heard_at = time.monotonic()
    while True:
        messages = consumer.consume(5_000, 0.1)
        if messages and messages[-1].offset() > offset:
            return
        now = time.monotonic()
        heard_at = now if messages else heard_at
        assert now - heard_at < FAILOVER_SECONDS, "the consumer gets nothing"


@contextmanager
def served(cluster: BrokerCluster, broker: BrokerProcess, rss_max: int) -> Iterator[None]:
    """While the block runs a client produces, and one reads what is new at its end; memory and log stay small."""
    rss, lines = broker.rss_bytes(), len(broker.log_text().splitlines())
    consumer = new_consumer(cluster.bootstrap)
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_END)])
    try:
        with LoadProducer(cluster.bootstrap, TOPIC, f"beside-{rss}", acks="all") as producer:
            eventually("a record is read", lambda: consumer.consume(1_000, 0.1))
            yield
            newest = max(list(producer.log.acked))
            producer.wait_acked(1_000)
            read_past(consumer, newest)
            assert producer.log.longest_pause < FAILOVER_SECONDS
            assert get_json(broker.admin, "/v1/status/ready", timeout=10)[0] == 200
            assert broker.rss_bytes() - rss < rss_max, f"{(broker.rss_bytes() - rss) // KIB} KiB more"
            assert producer.finish().failed == {}
    finally:
        consumer.close()
    assert broker.is_running
    assert len(broker.log_text().splitlines()) - lines < LOG_LINES_MAX, broker.log_tail()


def seconds_until_served(broker: BrokerProcess, number: int) -> float:
    """Return how long a client that comes now waits for its first answer; fails where it is turned away."""
    begin = time.monotonic()
    source = (f"{broker.host.rpartition('.')[0]}.{200 + number}", 0)
    with socket.create_connection((broker.host, KAFKA_PORT), CONNECT_TIMEOUT, source) as connection:
        connection.sendall(kafka_frame(API_VERSIONS, 0))
        assert read_kafka_response(connection)[:6] == b"\0\0\0\x07\0\0"
    return time.monotonic() - begin


@pytest.mark.parametrize("data", [b"", b"\0\0"], ids=["silent", "half a length"])
def test_half_open_connections_of_kafka_clients(target: BrokerCluster, data: bytes):
    broker = target[target.leader_of(TOPIC, 0)]
    # What runs beside takes memory of its own.
    with ExitStack() as stack, served(target, broker, CONNECTIONS * RSS_PER_CONNECTION + 100 * KIB * KIB):
        opened = [open_half(stack, broker, KAFKA_PORT, data, number) for number in range(CONNECTIONS)]
        eventually(
            "the log says that there are no more places",
            # Said once a minute, hence maybe by the test before.
            lambda: f"more than {KAFKA_MAX} connections" in broker.log_text(),
            FAILOVER_SECONDS,
        )
        waits = [seconds_until_served(broker, number) for number in range(5)]
        assert max(waits) < NEW_CLIENT_SECONDS, waits
        assert open_descriptors(broker) > KAFKA_MAX, "the strangers hold all places"
        ended = [connection is None or is_ended(connection) for connection in opened]
        assert not any(ended[-KAFKA_MAX // 2 :]), "the newest have their places"
        assert all(ended[:5]), "the oldest had to go"
    eventually("all places are free again", lambda: open_descriptors(broker) < KAFKA_MAX // 10)


@pytest.mark.parametrize("data", [b"", b"\0\0\0\x40\0\0"], ids=["silent", "half a prefix"])
def test_half_open_connections_to_the_node_links(target: BrokerCluster, data: bytes):
    broker = target[target.leader_of(TOPIC, 0)]
    terms = target.partition(TOPIC, 0)
    with ExitStack() as stack, served(target, broker, 100 * KIB * KIB):
        open_before, opened = open_descriptors(broker), []
        for number in range(CONNECTIONS):
            opened.append(open_half(stack, broker, RPC_PORT, data, number))
            if number % 500 == 0:
                assert open_descriptors(broker) - open_before < HANDSHAKES_MAX
        held = [connection for connection in opened if connection is not None]

        def left() -> int:
            return sum(not is_ended(connection) for connection in held)

        eventually(lambda: f"all are ended, {left()} are left", lambda: left() == 0, 15.0)
    assert (terms or {}).get("term") == (target.partition(TOPIC, 0) or {}).get("term"), "no election"


@pytest.mark.parametrize("data", [b"", b"GET /v1/status"], ids=["silent", "half a request"])
def test_half_open_connections_to_the_admin_port(target: BrokerCluster, data: bytes):
    broker = target[target.leader_of(TOPIC, 0)]
    with ExitStack() as stack, served(target, broker, 100 * KIB * KIB):
        opened = [open_half(stack, broker, ADMIN_PORT, data, number) for number in range(CONNECTIONS)]
        for _ in range(5):
            assert get_json(broker.admin, "/v1/status/ready", timeout=NEW_CLIENT_SECONDS)[0] == 200

        def left() -> int:
            return sum(connection is not None and not is_ended(connection) for connection in opened)

        eventually(lambda: f"{left()} have a place", lambda: left() <= ADMIN_MAX, FAILOVER_SECONDS)
