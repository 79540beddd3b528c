"""Brokers that are frozen (SIGSTOP) and thawed (SIGCONT): a long pause is neither a death nor a lost link.

Everything of a frozen broker stays: its connections are open, the kernel takes what is sent to it, and what it was
about to say it says when it is thawed, in a term that may be over.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from raftka.admin_client import AdminError, get_json
from tests.process.acked_log import (
    AckedLog,
    LoadProducer,
    check_no_phantom,
    check_nothing_acked_is_lost,
    check_nothing_twice,
    read_all,
)
from tests.process.broker_processes import BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "orders"
IDEMPOTENT = {"enable.idempotence": True, "acks": "all", "max.in.flight.requests.per.connection": 5}
# An election timeout with its draw (3 s), and how long a busy machine takes.
FAILOVER_SECONDS = 6.0
# A round trip, an fsync, and how long a busy machine takes; below what an election would take.
UNDISTURBED_SECONDS = 1.4


@pytest.fixture
def cluster(make_cluster: ClusterMaker) -> BrokerCluster:
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, TOPIC)
    return cluster


@contextmanager
def frozen(broker: BrokerProcess) -> Iterator[None]:
    """The broker does nothing during the block."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def views(brokers: list[BrokerProcess]) -> set[tuple[int, int] | None]:
    """Return the (leader, term) of the topic that each of them names; None for one that does not answer."""
    found: set[tuple[int, int] | None] = set()
    for broker in brokers:
        try:
            status, body = get_json(broker.admin, f"/v1/partitions/{TOPIC}/0", timeout=5)
        except AdminError:
            status, body = 0, {}
        found.add((int(body["leader"]), int(body["term"])) if status == 200 else None)
    return found


def agreed_view(brokers: list[BrokerProcess]) -> tuple[int, int] | None:
    """Return the (leader, term) on which all of them agree, if there is one."""
    found = views(brokers)
    view = found.pop()
    return None if found or view is None or view[0] == -1 else view


def wait_agreed(brokers: list[BrokerProcess], *, not_led_by: int, above_term: int = 0) -> None:
    """Wait no longer than a failover takes until these brokers agree on such a leader."""

    def is_agreed() -> bool:
        view = agreed_view(brokers)
        return view is not None and view[0] != not_led_by and view[1] > above_term

    eventually(lambda: f"another leader than {not_led_by}: {views(brokers)}", is_agreed, FAILOVER_SECONDS)


def others(cluster: BrokerCluster, node: int) -> list[BrokerProcess]:
    return [broker for number, broker in cluster.brokers.items() if number != node]


def loads(stack: ExitStack, bootstrap: str, suffix: str = "") -> list[LoadProducer]:
    """Start a producer with idempotence and one at acks=1 without retries."""
    options: dict[str, dict[str, Any]] = {"idempotent": IDEMPOTENT, "relaxed": {"acks": 1, "retries": 0}}
    return [stack.enter_context(LoadProducer(bootstrap, TOPIC, name + suffix, **options[name])) for name in options]


def check_history(cluster: BrokerCluster, strict: list[AckedLog], relaxed: list[AckedLog]) -> None:
    """Nothing acknowledged at acks=all is lost, nothing of theirs is there twice or out of order, nothing unsent."""
    cluster.wait_in_sync(TOPIC, 0)
    records = read_all(cluster.bootstrap, TOPIC)
    for log in strict:
        assert log.failed == {}
        check_nothing_acked_is_lost(records, log)
        check_nothing_twice(records, log)
        values = [record.value for record in records if record.value in log.sent]
        assert values == sorted(log.sent), "idempotence: each once, in the order of the sends"
    check_no_phantom(records, strict + relaxed)


def test_a_frozen_leader_is_replaced_and_joins_the_new_one(cluster: BrokerCluster):
    with ExitStack() as stack:
        producers = loads(stack, cluster.bootstrap)
        for _ in range(2):
            for producer in producers:
                producer.wait_acked(300)
            old = cluster.leader_of(TOPIC, 0)
            (_, term) = agreed_view(others(cluster, old)) or (-1, -1)
            seen = len(cluster[old].log_text())
            with frozen(cluster[old]):
                wait_agreed(others(cluster, old), not_led_by=old, above_term=term)
                # A client that begins now knows the others; the old one's connections hang in the frozen broker.
                late = loads(stack, ",".join(broker.kafka for broker in others(cluster, old)), f"-late-{term}")
                for producer in late:
                    producer.wait_acked(300)
                producers += late
            wait_agreed(list(cluster.brokers.values()), not_led_by=old, above_term=term)
            assert "steps down" in cluster[old].log_text()[seen:]
            for producer in producers:
                producer.wait_acked(100)
        logs = [producer.finish() for producer in producers]
    check_history(cluster, logs[0::2], logs[1::2])


def test_a_frozen_follower_holds_nobody_up_and_catches_up(cluster: BrokerCluster):
    with ExitStack() as stack:
        producers = loads(stack, cluster.bootstrap)
        for producer in producers:
            producer.wait_acked(300)
        leader = cluster.leader_of(TOPIC, 0)
        before = agreed_view(list(cluster.brokers.values()))
        follower = others(cluster, leader)[0]
        with frozen(follower):
            for producer in producers:
                producer.log.longest_pause = 0.0
            eventually("the leader counts it out", lambda: follower.node_id not in in_sync(cluster[leader]))
            for producer in producers:
                producer.wait_acked(2_000)
            pauses = [producer.log.longest_pause for producer in producers]
            assert max(pauses) < UNDISTURBED_SECONDS, pauses
            assert agreed_view(others(cluster, follower.node_id)) == before
        logs = [producer.finish() for producer in producers]
        check_history(cluster, logs[0::2], logs[1::2])
    # It may have thought that its leader was gone; prevote tells it otherwise.
    assert agreed_view(list(cluster.brokers.values())) == before


def in_sync(broker: BrokerProcess) -> list[int]:
    """Return the in-sync set that a leader tells."""
    status, body = get_json(broker.admin, f"/v1/partitions/{TOPIC}/0", timeout=10)
    assert status == 200
    return [int(node) for node in body["in_sync"]]


def test_all_brokers_frozen_one_after_the_other_lose_nothing(cluster: BrokerCluster):
    with ExitStack() as stack:
        producers = loads(stack, cluster.bootstrap)
        for broker in cluster.brokers.values():
            for producer in producers:
                producer.wait_acked(200)
            with frozen(broker):
                # Longer than an election; whoever leads meanwhile, it is not the frozen one.
                wait_agreed(others(cluster, broker.node_id), not_led_by=broker.node_id)
        for producer in producers:
            producer.wait_acked(200)
        logs = [producer.finish() for producer in producers]
    check_history(cluster, logs[0::2], logs[1::2])
