"""A fifth broker joins under load, and brokers are killed amid its join: the join goes on, and nothing is lost."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.process.acked_log import LoadProducer
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic
from tests.process.living_clusters import check_logs, controller, loads, only_founders_are_seeds, row
from tests.process.partition_moves import ask, await_moved, start_move

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "orders"
FOUNDERS, JOINING = 4, 5


@pytest.fixture
def cluster(make_cluster: ClusterMaker) -> BrokerCluster:
    """Four brokers that run, a fifth that has yet to join them, and a topic."""
    cluster = make_cluster(JOINING)
    only_founders_are_seeds(cluster, FOUNDERS)
    for node in range(1, FOUNDERS + 1):
        cluster[node].start()
    cluster.wait_ready()
    create_topic(cluster, TOPIC, replicas=3)
    return cluster


def _at_once(what: str, cluster: BrokerCluster) -> None:
    """Return as soon as a step is reached: without a pause, because a whole join takes half a second."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not STEPS[what](cluster):
        assert time.monotonic() < deadline, f"not in time: {what}{cluster.log_tails()}"
        assert cluster[JOINING].is_running, f"ended before {what}{cluster[JOINING].log_tail()}"


def _directory_id(cluster: BrokerCluster) -> str:
    """Return the name of the new broker's directory: its file is a checksum and a JSON object."""
    content = (cluster[JOINING].data_dir / "directory.id").read_text()
    return str(json.loads(content.partition(" ")[2])["directory_id"])


def _check_joined(cluster: BrokerCluster, producers: list[LoadProducer]) -> None:
    """Its directory was admitted, a partition can move to it, and nothing acknowledged is missing."""
    told: dict[str, Any] = eventually("somebody tells of the new broker", lambda: row(cluster, JOINING))
    assert told["directory_id"] == _directory_id(cluster)
    assert not told["directory_retired"]
    assert [each["node_id"] for each in ask(cluster, "/v1/brokers")] == [1, 2, 3, 4, 5]
    target = [JOINING, 1, 2]
    start_move(cluster, TOPIC, target)
    await_moved(cluster, TOPIC, target)
    for load in producers:
        load.wait_acked(50)
    logs = [load.finish() for load in producers]
    cluster.wait_in_sync(TOPIC, 0)
    check_logs(cluster, TOPIC, logs)


# What can be seen of a join from outside, in this order.
STEPS: dict[str, Callable[[BrokerCluster], object]] = {
    "its directory has a name": lambda cluster: (cluster[JOINING].data_dir / "directory.id").exists(),
    "it is admitted": lambda cluster: row(cluster, JOINING),
    "it holds raft0": lambda cluster: any((cluster[JOINING].data_dir / "groups").glob("*")),
    "it is registered": lambda cluster: (row(cluster, JOINING) or {}).get("kafka"),
}


def test_a_broker_that_is_killed_at_each_step_of_its_join_goes_on_where_it_was(cluster: BrokerCluster) -> None:
    fifth = cluster[JOINING]
    with ExitStack() as stack:
        producers = loads(stack, cluster, TOPIC)
        names = set()
        for what in STEPS:
            fifth.start()
            _at_once(what, cluster)
            fifth.kill()
            names.add(_directory_id(cluster))
            for load in producers:
                load.wait_acked(20)
        cluster.restart([JOINING])
        assert names == {_directory_id(cluster)}, "a join that goes on draws no new name"
        _check_joined(cluster, producers)


@pytest.mark.parametrize("what", list(STEPS)[:3])
def test_a_join_goes_on_when_raft0_s_leader_is_killed_amid_it(cluster: BrokerCluster, what: str) -> None:
    with ExitStack() as stack:
        producers = loads(stack, cluster, TOPIC)
        leader = controller(cluster)
        cluster[JOINING].start()
        _at_once(what, cluster)
        cluster[leader].kill()
        # A join needs a majority, and not its former leader.
        cluster[JOINING].wait_ready()
        cluster.restart([leader])
        _check_joined(cluster, producers)
