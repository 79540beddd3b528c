"""A partition moves at random among five brokers under load, amid kills, cut links and restarts: nothing is lost."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from itertools import combinations

import pytest

from raftka.chaos.network_namespace import NetworkNamespace
from tests.process.broker_processes import ClusterMaker, eventually
from tests.process.kafka_topics import create_topic
from tests.process.living_clusters import check_logs, controller, cuttable_network, loads
from tests.process.partition_moves import ask, await_moved, move_of, replicas_of, start_move, throttled

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "orders"
MOVES = 50
# By the last digit of the move's number.
STRIKES = {2: "leader", 7: "raft0's leader", 3: "new replica", 8: "new replica", 4: "parted", 9: "parted"}
HELD = ("leader", "raft0's leader")


@pytest.fixture
def network() -> Iterator[NetworkNamespace]:
    yield from cuttable_network()


# Fifty moves, most with a broker that restarts: two minutes on an idle machine.
@pytest.mark.timeout(900)
def test_fifty_random_moves_amid_kills_and_cut_links_lose_and_double_nothing(
    network: NetworkNamespace, make_cluster: ClusterMaker
) -> None:
    """Of ten moves, one has the partition's leader killed, one raft0's leader, two have leader and new replica parted.

    The kills of leaders come while copies are throttled, so that these moves cannot have ended before. In two more moves
    the broker of a new replica is killed, while it receives what it lacks.
    """
    cluster = make_cluster(5)
    cluster.start()
    create_topic(cluster, TOPIC, replicas=3)
    rng = random.Random(26)
    amid: Counter[str] = Counter()
    with ExitStack() as stack:
        producers = loads(stack, cluster, TOPIC)
        for number in range(MOVES):
            old = replicas_of(cluster, TOPIC)
            others = [each for each in combinations(cluster.brokers, 3) if set(each) != set(old)]
            target = rng.sample(rng.choice(others), 3)
            new = min(set(target) - set(old))
            strike = STRIKES.get(number % 10, "")
            # It is to send the new replica what the partition has.
            leader = cluster.leader_of(TOPIC, 0)
            with throttled(cluster, TOPIC) if strike in HELD else nullcontext():
                start_move(cluster, TOPIC, target)
                killed = []
                if strike == "leader":
                    killed = [leader]
                elif strike == "raft0's leader":
                    killed = [controller(cluster)]
                elif strike == "new replica":
                    killed = [new]
                elif strike == "parted":
                    network.cut(cluster[leader].host, cluster[new].host)
                    network.cut(cluster[new].host, cluster[leader].host)
                for node in killed:
                    cluster[node].kill()
                if strike in HELD:
                    # A broker may hear of it from raft0's next leader only.
                    eventually("the move is under way", lambda: move_of(cluster, TOPIC))
                elif strike and move_of(cluster, TOPIC) is not None:
                    amid[strike] += 1
                for load in producers:
                    load.wait_acked(20)
            network.heal()
            cluster.restart(killed)
            await_moved(cluster, TOPIC, target)
        logs = [load.finish() for load in producers]
    cluster.wait_in_sync(TOPIC, 0)
    check_logs(cluster, TOPIC, logs)
    assert amid["parted"] > 0
    assert amid["new replica"] > 0


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
