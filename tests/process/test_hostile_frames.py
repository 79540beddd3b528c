"""Strangers send what they like to every port; the broker ends their connections and serves the others on."""

import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.admin_client import get_json, not_ready_reason
from tests.process.acked_log import LoadProducer, check_no_phantom, check_nothing_acked_is_lost, read_all
from tests.process.broker_processes import (
    ADMIN_PORT,
    KAFKA_PORT,
    RPC_PORT,
    BrokerCluster,
    ClusterMaker,
    eventually,
)
from tests.process.hostile_frames import (
    ADMIN,
    API_VERSIONS,
    KAFKA,
    RPC,
    UNSUPPORTED_VERSION,
    half_open,
    kafka_frame,
    random_frames,
    read_kafka_response,
    send_all,
)
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

RSS_MAX = 300 * 1024 * 1024
SEED = 20_260_131


@pytest.fixture(scope="module")
def besieged(shared_clusters: ClusterMaker) -> Iterator[BrokerCluster]:
    # What is written beside the test fills no read cache: memory is that of the clients under test.
    cluster = shared_clusters(3, **{"read.cache.bytes": 0})
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def bystander(besieged: BrokerCluster, request: pytest.FixtureRequest) -> Iterator[LoadProducer]:
    """A client that is served during the test: not one of its sends may fail, however hard strangers try."""
    topic = re.sub(r"\W+", "-", request.node.name)[:100]
    create_topic(besieged, topic)
    with LoadProducer(besieged.bootstrap, topic, topic, acks="all", retries=0) as producer:
        producer.wait_acked(20)
        yield producer
        producer.wait_acked(20)
        log = producer.finish()
    assert log.failed == {}
    records = read_all(besieged.bootstrap, topic)
    check_nothing_acked_is_lost(records, log)
    check_no_phantom(records, [log])
    _check_unharmed(besieged)


def _check_unharmed(cluster: BrokerCluster) -> None:
    for broker in cluster.brokers.values():
        assert broker.is_running
        assert "Traceback" not in broker.log_text(), "a stranger's bytes ended in an exception nobody expected"
        assert broker.rss_bytes() < RSS_MAX
        # Not at once: the reader's own group id has just made the partitions of __consumer_offsets.
        broker.wait_ready()


def test_malformed_frames_end_their_connection_only(besieged: BrokerCluster, bystander: LoadProducer):
    for hostile in KAFKA + RPC + ADMIN:
        for broker in besieged.brokers.values():
            answer = send_all(broker.host, hostile)
            if hostile.port == ADMIN_PORT:
                assert re.match(rb"HTTP/1.[01] 4|$", answer), f"{hostile}: {answer[:100]!r}"
            elif hostile.port == KAFKA_PORT:
                assert answer == b"", f"{hostile}: {answer[:100]!r}"


def test_noise_in_well_formed_frames_is_survived(besieged: BrokerCluster, bystander: LoadProducer):
    for hostile in random_frames(SEED, 150):
        send_all(besieged[1].host, hostile)


def test_an_unknown_version_of_api_versions_is_answered_with_the_versions_there_are(besieged: BrokerCluster):
    with half_open(besieged[1].host, KAFKA_PORT, kafka_frame(API_VERSIONS, 99, b"?" * 20)) as connection:
        answer = read_kafka_response(connection)
        correlation, error, count = struct.unpack_from(">ihi", answer)
        assert (correlation, error) == (7, UNSUPPORTED_VERSION)
        listed = [struct.unpack_from(">hhh", answer, 10 + 6 * number) for number in range(count)]
        assert len(answer) == 10 + 6 * count  # v0: no tags, no throttle time
        assert (API_VERSIONS, 0, 4) in listed
        # The connection is still good: the client comes back with a version that exists.
        connection.sendall(kafka_frame(API_VERSIONS, 0, correlation=8))
        assert struct.unpack_from(">ih", read_kafka_response(connection)) == (8, 0)


@pytest.mark.parametrize(
    ("port", "data"),
    [
        (KAFKA_PORT, b""),
        (KAFKA_PORT, kafka_frame(API_VERSIONS, 0)[:9]),
        (RPC_PORT, b""),
        (RPC_PORT, struct.pack(">III", 60_000, 50_000, 0)),
        (ADMIN_PORT, b""),
        (ADMIN_PORT, b"GET /v1/status/ready HTTP/1.1\r\nHost"),
    ],
)
def test_two_hundred_half_open_connections_keep_nobody_out(
    besieged: BrokerCluster, bystander: LoadProducer, port: int, data: bytes
):
    with ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(half_open(besieged[1].host, port, data))
        bystander.wait_acked(50)
        _check_unharmed(besieged)


def test_announced_megabytes_take_no_memory_before_they_come(besieged: BrokerCluster, bystander: LoadProducer):
    announced = struct.pack(">i", 99 * 1024 * 1024) + kafka_frame(0, 9, b"\0" * 1_000)[4:]
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(half_open(besieged[1].host, KAFKA_PORT, announced))
        bystander.wait_acked(50)
        _check_unharmed(besieged)


def test_a_broker_with_another_secret_is_refused_and_named(make_cluster: ClusterMaker):
    # The stranger is out of sync after so long.
    cluster = make_cluster(3, **{"replica.lag.time.max.ms": 3_000})
    cluster.start()
    create_topic(cluster, "guarded")
    stranger = cluster[3]
    assert stranger.terminate() == 0
    (cluster.folder / "other-secret").touch(0o600)
    (cluster.folder / "other-secret").write_bytes(b"guessed, and long enough")
    stranger.config["cluster.secret.file"] = str(cluster.folder / "other-secret")
    seen = len(stranger.log_text())
    stranger.start()

    def refusal(log: str) -> str | None:
        return next((line for line in log.splitlines() if "secret" in line and "refused" in line), None)

    with LoadProducer(cluster.bootstrap, "guarded", "guarded", acks="all") as producer:
        eventually("node 1 names the refusal", lambda: refusal(cluster[1].log_text()))
        eventually("the stranger is told", lambda: refusal(stranger.log_text()[seen:]))
        producer.wait_acked(50)
        producer.finish()
    eventually("the stranger out of sync", lambda: cluster.partition("guarded", 0)["in_sync"] == [1, 2])
    status, told = get_json(stranger.admin, "/v1/status/ready")
    assert status == 503
    assert told["reason"] == "brokers 1, 2 and this broker (3) have different cluster secrets"
    assert "cluster.secret.file" in told["cure"]
    assert not_ready_reason(cluster[1].admin) is None
    check_nothing_acked_is_lost(read_all(cluster.bootstrap, "guarded"), producer.log)

    stranger.terminate()
    stranger.config["cluster.secret.file"] = str(cluster.secret_path)
    cluster.restart([3])
    cluster.wait_in_sync("guarded", 0)
