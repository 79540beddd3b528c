"""A partition moves at random among five brokers under load, amid kills, cut links and restarts: nothing is lost."""

import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.chaos.network_namespace import NetworkNamespace
from tests.process.broker_processes import ClusterMaker, eventually
from tests.process.kafka_topics import create_topic
from tests.process.living_clusters import check_logs, controller, cuttable_network, loads
from tests.process.partition_moves import ask, await_moved, start_move

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "orders"
MOVES = 50


@pytest.fixture
def network() -> Iterator[NetworkNamespace]:
    yield from cuttable_network()


# Fifty moves, most with a broker that restarts: two minutes on an idle machine.
@pytest.mark.timeout(900)
def test_fifty_random_moves_amid_kills_and_cut_links_lose_and_double_nothing(
    network: NetworkNamespace, make_cluster: ClusterMaker
) -> None:
    """Of ten moves, one has the partition's leader killed, one raft0's leader, two have old and new replicas parted.

    In two more the broker of a new replica is killed, while it receives what it lacks.
    """
    cluster = make_cluster(5)
    cluster.start()
    create_topic(cluster, TOPIC, replicas=3)
    rng = random.Random(26)
    with ExitStack() as stack:
        producers = loads(stack, cluster, TOPIC)
        for number in range(MOVES):
            status = eventually("somebody tells of the partition", lambda: cluster.partition(TOPIC, 0))
            target = rng.sample(sorted(cluster.brokers), 3)
            fresh = sorted(set(target) - set(status["replicas"]))
            start_move(cluster, TOPIC, target)
            killed: list[int] = []
            if number % 10 == 2:
                killed = [cluster.leader_of(TOPIC, 0)]
            elif number % 10 == 7:
                killed = [controller(cluster)]
            elif number % 5 == 3:
                killed = fresh[:1]
            elif number % 5 == 4:
                for new in fresh:
                    old = cluster[rng.choice(status["replicas"])].host
                    network.cut(old, cluster[new].host)
                    network.cut(cluster[new].host, old)
            for node in killed:
                cluster[node].kill()
            for load in producers:
                load.wait_acked(20)
            network.heal()
            cluster.restart(killed)
            await_moved(cluster, TOPIC, target)
        logs = [load.finish() for load in producers]
    cluster.wait_in_sync(TOPIC, 0)
    check_logs(cluster, TOPIC, logs)


def test_a_rolling_restart_of_all_brokers_amid_a_move_loses_nothing(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(5)
    cluster.start()
    create_topic(cluster, TOPIC, replicas=3)
    with ExitStack() as stack:
        producers = loads(stack, cluster, TOPIC)
        status = eventually("somebody tells of the partition", lambda: cluster.partition(TOPIC, 0))
        fresh = sorted(cluster.brokers.keys() - set(status["replicas"]))
        target = [*fresh, status["replicas"][0]]
        # One of those that are to get it is away at first, so the move is on its way through the restarts of the others.
        assert cluster[fresh[0]].terminate() == 0
        start_move(cluster, TOPIC, target)
        for node in cluster.brokers:
            if node == fresh[0]:
                continue
            assert cluster[node].terminate() == 0
            cluster.restart([node])
            for load in producers:
                load.wait_acked(50)
        moves = eventually("somebody tells of the moves", lambda: ask(cluster, "/v1/moves"))
        assert len(moves["moves"]) == 1
        cluster.restart([fresh[0]])
        await_moved(cluster, TOPIC, target)
        logs = [load.finish() for load in producers]
    cluster.wait_in_sync(TOPIC, 0)
    check_logs(cluster, TOPIC, logs)
