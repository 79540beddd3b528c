"""A partition moves at random among five brokers under load, amid kills, cut links and restarts: nothing is lost."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from raftka.admin_client import AdminError, request_json
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
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "orders"
MOVES = 50
LIVING: dict[str, Any] = {"unstable.feature.versions.enable": True}


@pytest.fixture
def network() -> Iterator[NetworkNamespace]:
    try:
        with own_network() as network:
            yield network
    except NetworkNamespaceError as error:
        # Without the rights for a network of its own nothing can be cut.
        pytest.skip(str(error))


def _ask(cluster: BrokerCluster, path: str, document: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Return what the first broker answers that has an answer."""
    for broker in cluster.running:
        method = "GET" if document is None else "POST"
        try:
            status, body = request_json(broker.admin, path, 5.0, method=method, document=document)
        except AdminError:
            continue
        if status == 200:
            return dict(body)
    return None


def _move(cluster: BrokerCluster, target: list[int]) -> None:
    wanted = {"topic": TOPIC, "partition": 0, "replicas": target}
    eventually(f"a move to {target} begins", lambda: _ask(cluster, "/v1/moves", {"moves": [wanted]}))


def _await_moved(cluster: BrokerCluster, target: list[int]) -> None:
    def is_moved() -> bool:
        moves = _ask(cluster, "/v1/moves")
        status = cluster.partition(TOPIC, 0)
        return moves is not None and not moves["moves"] and status is not None and status["replicas"] == target

    eventually(lambda: f"moved to {target}: {_ask(cluster, '/v1/moves')}{cluster.log_tails()}", is_moved)


def _controller(cluster: BrokerCluster) -> int:
    """Return raft0's leader."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "logger": quiet_logger()})

    def known() -> int | None:
        node = int(admin.list_topics(timeout=10).controller_id)
        return node if node in cluster.brokers and cluster[node].is_running else None

    return eventually("raft0 has a leader", known)


def _check(cluster: BrokerCluster, logs: list[AckedLog]) -> None:
    records = read_all(cluster.bootstrap, TOPIC)
    check_no_phantom(records, logs)
    for log in logs:
        check_nothing_acked_is_lost(records, log)
        check_nothing_twice(records, log)
        assert not log.failed
        own = [record.value for record in records if record.value in log.sent]
        assert own == sorted(own), "values are numbered in the order in which they were sent"


def _loads(stack: ExitStack, cluster: BrokerCluster) -> list[LoadProducer]:
    options = {"acks": "all", "enable.idempotence": True}
    loads = [stack.enter_context(LoadProducer(cluster.bootstrap, TOPIC, name, **options)) for name in ("one", "two")]
    for load in loads:
        load.wait_acked(100)
    return loads


def test_fifty_random_moves_amid_kills_and_cut_links_lose_and_double_nothing(
    network: NetworkNamespace, make_cluster: ClusterMaker
) -> None:
    """Of ten moves, one has the partition's leader killed, one raft0's leader, two have old and new replicas parted."""
    cluster = make_cluster(5, **LIVING)
    cluster.start()
    create_topic(cluster, TOPIC, replicas=3)
    rng = random.Random(26)
    with ExitStack() as stack:
        loads = _loads(stack, cluster)
        for number in range(MOVES):
            status = eventually("somebody tells of the partition", lambda: cluster.partition(TOPIC, 0))
            target = rng.sample(sorted(cluster.brokers), 3)
            _move(cluster, target)
            killed: list[int] = []
            if number % 10 in (2, 7):
                killed = [cluster.leader_of(TOPIC, 0) if number % 10 == 2 else _controller(cluster)]
                cluster[killed[0]].kill()
            elif number % 5 == 4:
                for new in set(target) - set(status["replicas"]):
                    old = cluster[rng.choice(status["replicas"])].host
                    network.cut(old, cluster[new].host)
                    network.cut(cluster[new].host, old)
            for load in loads:
                load.wait_acked(20)
            network.heal()
            cluster.restart(killed)
            _await_moved(cluster, target)
        logs = [load.finish() for load in loads]
    cluster.wait_in_sync(TOPIC, 0)
    _check(cluster, logs)


def test_a_rolling_restart_of_all_brokers_amid_a_move_loses_nothing(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(5, **LIVING)
    cluster.start()
    create_topic(cluster, TOPIC, replicas=3)
    with ExitStack() as stack:
        loads = _loads(stack, cluster)
        status = eventually("somebody tells of the partition", lambda: cluster.partition(TOPIC, 0))
        fresh = sorted(cluster.brokers.keys() - set(status["replicas"]))
        target = [*fresh, status["replicas"][0]]
        # One of those that are to get it is away at first, so the move is on its way through the restarts of the others.
        assert cluster[fresh[0]].terminate() == 0
        _move(cluster, target)
        for node in cluster.brokers:
            if node == fresh[0]:
                continue
            assert cluster[node].terminate() == 0
            cluster.restart([node])
            for load in loads:
                load.wait_acked(50)
        moves = eventually("somebody tells of the moves", lambda: _ask(cluster, "/v1/moves"))
        assert len(moves["moves"]) == 1
        cluster.restart([fresh[0]])
        _await_moved(cluster, target)
        logs = [load.finish() for load in loads]
    cluster.wait_in_sync(TOPIC, 0)
    _check(cluster, logs)
