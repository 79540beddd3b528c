"""A partition moves at random among five brokers under load, amid kills, cut links and restarts: nothing is lost."""

import random
from collections.abc import Iterator
from contextlib import ExitStack

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
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic
from tests.process.partition_moves import LIVING, await_moved, move_of, replicas_of, start_move

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "orders"
MOVES = 50


@pytest.fixture
def network() -> Iterator[NetworkNamespace]:
    try:
        with own_network() as network:
            yield network
    except NetworkNamespaceError as error:
        # Without the rights for a network of its own nothing can be cut.
        pytest.skip(str(error))


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
            holders = replicas_of(cluster, TOPIC)
            target = rng.sample(sorted(cluster.brokers), 3)
            start_move(cluster, TOPIC, target)
            killed: list[int] = []
            if number % 10 in (2, 7):
                killed = [cluster.leader_of(TOPIC, 0) if number % 10 == 2 else _controller(cluster)]
                cluster[killed[0]].kill()
            elif number % 5 == 4:
                for new in set(target) - set(holders):
                    old = cluster[rng.choice(holders)].host
                    network.cut(old, cluster[new].host)
                    network.cut(cluster[new].host, old)
            for load in loads:
                load.wait_acked(20)
            network.heal()
            cluster.restart(killed)
            await_moved(cluster, TOPIC, target)
        logs = [load.finish() for load in loads]
    cluster.wait_in_sync(TOPIC, 0)
    _check(cluster, logs)


def test_a_rolling_restart_of_all_brokers_amid_a_move_loses_nothing(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(5, **LIVING)
    cluster.start()
    create_topic(cluster, TOPIC, replicas=3)
    with ExitStack() as stack:
        loads = _loads(stack, cluster)
        holders = replicas_of(cluster, TOPIC)
        fresh = sorted(cluster.brokers.keys() - set(holders))
        target = [*fresh, holders[0]]
        # One of those that are to get it is away at first, so the move is on its way through the restarts of the others.
        assert cluster[fresh[0]].terminate() == 0
        start_move(cluster, TOPIC, target)
        for node in cluster.brokers:
            if node == fresh[0]:
                continue
            assert cluster[node].terminate() == 0
            cluster.restart([node])
            for load in loads:
                load.wait_acked(50)
        assert move_of(cluster, TOPIC) is not None
        cluster.restart([fresh[0]])
        await_moved(cluster, TOPIC, target)
        logs = [load.finish() for load in loads]
    cluster.wait_in_sync(TOPIC, 0)
    _check(cluster, logs)
