"""A leader's link carries a hundredth of what producers send: it keeps its office, and the others catch up later."""

import os
import re
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from raftka.chaos.network_namespace import NetworkNamespace, NetworkNamespaceError, own_network
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "orders"
THROTTLED_BYTES_PER_SECOND = 100 * 1024
THROTTLED_SECONDS = 15.0
VALUE_BYTES = 100_000
VALUES_IN_FLIGHT = 200


@pytest.fixture
def network() -> Iterator[NetworkNamespace]:
    try:
        with own_network() as network:
            yield network
    except NetworkNamespaceError as error:
        pytest.skip(str(error))


class Flood:
    """Produces large values as fast as they are taken, from a thread; a context manager."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self.acked = 0
        self.errors: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "logger": quiet_logger(), **options})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flood", daemon=True)

    def __enter__(self) -> "Flood":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_SECONDS)
        self._producer.purge()
        self._producer.flush(DEADLINE_SECONDS)

    def _run(self) -> None:
        value = os.urandom(VALUE_BYTES)
        while not self._stop.is_set():
            if len(self._producer) < VALUES_IN_FLIGHT:
                self._producer.produce(TOPIC, value, partition=0, on_delivery=self._on_delivery)
                self._producer.poll(0)
            else:
                self._producer.poll(0.05)

    def _on_delivery(self, error: object, _: object) -> None:
        if error is None:
            self.acked += 1
        elif not self._stop.is_set():
            self.errors.append(str(error))


def elections(cluster: BrokerCluster) -> dict[int, list[str]]:
    """Return what each broker counted of elections, over all its groups, and its term of the topic."""
    found = {}
    for node, broker in cluster.brokers.items():
        text = ""
        for path in ("/metrics", "/metrics/partitions"):
            with urllib.request.urlopen(f"http://{broker.admin}{path}", timeout=10) as response:
                text += response.read().decode()
        found[node] = re.findall(
            r"^(?:raftka_raft_\w*(?:election|vote)\w*_total|raftka_partition_term)\b.*", text, re.MULTILINE
        )
        assert len(found[node]) > 1, text
    return found


@pytest.mark.parametrize("slow_followers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_throttled_link_with_full_windows_causes_no_election(
    network: NetworkNamespace, make_cluster: ClusterMaker, slow_followers: int
):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, TOPIC)
    leader = cluster.leader_of(TOPIC, 0)
    cluster.wait_in_sync(TOPIC, 0)
    before = elections(cluster)
    followers = [broker for node, broker in cluster.brokers.items() if node != leader]
    with Flood(cluster.bootstrap, acks=1) as relaxed, Flood(cluster.bootstrap, acks="all") as strict:
        eventually("both floods run", lambda: min(relaxed.acked, strict.acked) > 100)
        for follower in followers[:slow_followers]:
            network.throttle(cluster[leader].host, follower.host, THROTTLED_BYTES_PER_SECOND)
        threading.Event().wait(THROTTLED_SECONDS)
        assert elections(cluster) == before, cluster.log_tails()
        assert cluster.leader_of(TOPIC, 0) == leader
        assert relaxed.errors + strict.errors == []
        network.heal()
        acked = min(relaxed.acked, strict.acked)
        eventually("both floods go on", lambda: min(relaxed.acked, strict.acked) > acked + 100)
    cluster.wait_in_sync(TOPIC, 0)
    assert elections(cluster) == before, cluster.log_tails()
