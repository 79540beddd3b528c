"""Clusters at level 1 of `raftka.membership`: brokers that join, load, and what must hold at the end."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from raftka.chaos.network_namespace import NetworkNamespace, NetworkNamespaceError, own_network
from tests.process.acked_log import (
    AckedLog,
    LoadProducer,
    check_no_phantom,
    check_nothing_acked_is_lost,
    check_nothing_twice,
    quiet_logger,
    read_all,
)
from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.partition_moves import ask


def cuttable_network() -> Iterator[NetworkNamespace]:
    """Yield a network of the test's own; skips the test where there can be none."""
    try:
        with own_network() as network:
            yield network
    except NetworkNamespaceError as error:
        pytest.skip(str(error))


def only_founders_are_seeds(cluster: BrokerCluster, founders: int) -> None:
    """Let the first brokers found the cluster, so that the others may join it."""
    for broker in cluster.brokers.values():
        broker.config["seeds"] = cluster.seeds[:founders]


def controller(cluster: BrokerCluster) -> int:
    """Return raft0's leader, once a broker that runs is known as it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "logger": quiet_logger()})

    def known() -> int | None:
        node = int(admin.list_topics(timeout=10).controller_id)
        return node if node in cluster.brokers and cluster[node].is_running else None

    return eventually("raft0 has a leader", known)


def row(cluster: BrokerCluster, node: int) -> dict[str, Any] | None:
    """Return what another broker tells of one; None: no broker tells, or that one was not admitted."""
    rows = [each for each in ask(cluster, "/v1/brokers") or [] if each["node_id"] == node]
    return dict(rows[0]) if rows else None


def loads(stack: ExitStack, cluster: BrokerCluster, topic: str) -> list[LoadProducer]:
    """Start two idempotent producers to partition 0, and return them once both are at work."""
    options = {"acks": "all", "enable.idempotence": True}
    started = [stack.enter_context(LoadProducer(cluster.bootstrap, topic, name, **options)) for name in ("one", "two")]
    for load in started:
        load.wait_acked(100)
    return started


def check_logs(cluster: BrokerCluster, topic: str, logs: list[AckedLog]) -> None:
    """Read partition 0: what was acknowledged is there once and in order, and nothing else is; no send failed."""
    records = read_all(cluster.bootstrap, topic)
    check_no_phantom(records, logs)
    for log in logs:
        check_nothing_acked_is_lost(records, log)
        check_nothing_twice(records, log)
        assert not log.failed
        own = [record.value for record in records if record.value in log.sent]
        assert own == sorted(own), "values are numbered in the order in which they were sent"
