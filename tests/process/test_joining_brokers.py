"""Brokers that join a founded cluster: what they write and say before they are let in, and when they are not."""

from pathlib import Path
from typing import Any

import pytest

from raftka.admin_client import get_json, not_ready_reason
from tests.process.broker_processes import BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

LIVING: dict[str, Any] = {"unstable.feature.versions.enable": True}


def _only_founders_are_seeds(cluster: BrokerCluster, founders: int) -> None:
    """Let the first brokers found the cluster, so that the others may join it."""
    for broker in cluster.brokers.values():
        broker.config["seeds"] = cluster.seeds[:founders]


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _reason(broker: BrokerProcess, words: str) -> dict[str, Any]:
    """Wait until a broker is not ready for a reason with these words, and return the answer of its admin port."""

    def answer() -> dict[str, Any] | None:
        if words not in (not_ready_reason(broker.admin) or ""):
            return None
        body = get_json(broker.admin, "/v1/status/ready")[1]
        return dict(body) if words in body.get("reason", "") else None

    return eventually(lambda: f"{words}; now: {not_ready_reason(broker.admin)}", answer)


def _refusal(broker: BrokerProcess) -> str:
    seen = len(broker.log_text())
    broker.start()
    assert broker.wait_exit() == 78, broker.log_tail()
    (line,) = (line for line in broker.log_text()[seen:].splitlines() if line.startswith("raftka: "))
    return line


def test_a_broker_that_is_no_seed_waits_writes_nothing_and_joins_when_a_seed_answers(make_cluster: ClusterMaker):
    cluster = make_cluster(4, **LIVING)
    _only_founders_are_seeds(cluster, 3)
    fourth = cluster[4]
    fourth.start()
    answer = _reason(fourth, "starting: waiting for seeds to let this broker join their cluster: 1@")
    assert "start the brokers that do not answer (1, 2, 3)" in answer["cure"]
    assert _names(fourth.data_dir) == ["lock"]
    for number in (1, 2, 3):
        cluster[number].start()
    cluster.wait_ready()
    rows = get_json(cluster[1].admin, "/v1/brokers")[1]
    assert [row["node_id"] for row in rows] == [1, 2, 3, 4]
    create_topic(cluster, "t", 4)
    # Any broker will do to ask, and who is asked need not have founded the cluster.
    assert fourth.terminate() == 0
    fourth.config["seeds"] = cluster.seeds[1:2]
    cluster.restart([4])


def test_an_empty_directory_under_a_known_node_id_is_refused_and_stays_empty(make_cluster: ClusterMaker):
    cluster = make_cluster(3, **LIVING)
    cluster.start()
    third = cluster[3]
    assert third.terminate() == 0
    third.config["data.dir"] = str(cluster.folder / "empty")
    line = _refusal(third)
    assert "node 3 is in the cluster with another data directory" in line
    assert "raftka broker replace 3" in line
    assert _names(third.data_dir) == ["lock"]


def test_below_the_level_nobody_joins_and_the_refusal_says_what_to_do(make_cluster: ClusterMaker):
    cluster = make_cluster(4)
    _only_founders_are_seeds(cluster, 3)
    for number in (1, 2, 3):
        cluster[number].start()
    cluster.wait_ready()
    line = _refusal(cluster[4])
    assert "raftka.membership" in line
    assert "raftka cluster features upgrade" in line
    assert _names(cluster[4].data_dir) == ["lock"]


def test_a_broker_alone_with_a_secret_grows(make_cluster: ClusterMaker):
    cluster = make_cluster(2, **LIVING)
    cluster[1].config["seeds"] = []
    cluster[2].config["seeds"] = cluster.seeds[:1]
    cluster.start()
    assert [row["node_id"] for row in get_json(cluster[1].admin, "/v1/brokers")[1]] == [1, 2]
    cluster[1].terminate()
    cluster.restart([1])
