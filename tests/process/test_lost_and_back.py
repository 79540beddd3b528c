"""What the other brokers tell of one that is killed, started again and stopped: in the log and at /v1/events."""

import os
import signal
import urllib.request

import pytest

from raftka.admin_client import get_json
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually

pytestmark = pytest.mark.process


def _get(admin: str, path: str) -> dict:
    status, body = get_json(admin, path, timeout=10)
    assert status == 200, body
    return body


def _texts(cluster: BrokerCluster, node_id: int, since: int = 1) -> list[str]:
    return [event["text"] for event in _get(cluster[node_id].admin, f"/v1/events?since={since}")["events"]]


def _wait_for(cluster: BrokerCluster, node_id: int, text: str, since: int) -> None:
    eventually(
        lambda: f"no event {text!r}{cluster[node_id].log_tail()}",
        lambda: any(each.startswith(text) for each in _texts(cluster, node_id, since)),
    )


def test_a_broker_that_is_killed_is_lost_and_one_that_is_stopped_stops(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3)
    cluster.start()
    before = {node_id: _get(cluster[node_id].admin, "/v1/events")["next"] for node_id in (1, 3)}
    cluster[2].kill()
    for node_id in (1, 3):
        _wait_for(cluster, node_id, "node 2 lost", before[node_id])
    cluster.restart([2])
    for node_id in (1, 3):
        _wait_for(cluster, node_id, "node 2 back after", before[node_id])
        assert "WARNING cluster node 2 lost" in " ".join(cluster[node_id].log_text().split())
    before = {node_id: _get(cluster[node_id].admin, "/v1/events")["next"] for node_id in (1, 3)}
    assert cluster[2].terminate() == 0
    for node_id in (1, 3):
        _wait_for(cluster, node_id, "node 2 stops", before[node_id])
        assert "node 2 lost" not in _texts(cluster, node_id, before[node_id])


def _is_alive(cluster: BrokerCluster, node_id: int, other: int) -> bool:
    status, brokers = get_json(cluster[node_id].admin, "/v1/brokers", timeout=10)
    assert status == 200, brokers
    return next(each["alive"] for each in brokers if each["node_id"] == other)


def _peer_up(cluster: BrokerCluster, node_id: int, other: int) -> float:
    with urllib.request.urlopen(f"http://{cluster[node_id].admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    name = f'raftka_peer_up{{node="{other}"}} '
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def _raft0_leader(cluster: BrokerCluster) -> int:
    """Return which broker began to lead raft0 last; it sends heartbeats to all others."""
    offices = [
        (event["term"], node_id)
        for node_id in cluster.brokers
        for event in _get(cluster[node_id].admin, "/v1/events")["events"]
        if event["kind"] == "leader" and event["partition"] == "raft0"
    ]
    return max(offices)[1]


def _wait_for_gauge(cluster: BrokerCluster, node_id: int, other: int, wanted: int) -> None:
    # An answer to a scrape is kept for a second.
    eventually(f"peer_up {wanted} at node {node_id}", lambda: _peer_up(cluster, node_id, other) == wanted)


def test_an_idle_broker_that_is_frozen_is_lost_for_every_other_one_and_back_afterwards(
    make_cluster: ClusterMaker,
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    before = {node_id: _get(cluster[node_id].admin, "/v1/events")["next"] for node_id in cluster.brokers}
    leader = _raft0_leader(cluster)
    frozen, idle = (node_id for node_id in cluster.brokers if node_id != leader)
    os.kill(cluster[frozen].pid, signal.SIGSTOP)
    try:
        for node_id in (leader, idle):
            _wait_for(cluster, node_id, f"node {frozen} lost", before[node_id])
            assert not _is_alive(cluster, node_id, frozen)
            _wait_for_gauge(cluster, node_id, frozen, 0)
    finally:
        os.kill(cluster[frozen].pid, signal.SIGCONT)
    for node_id in (leader, idle):
        _wait_for(cluster, node_id, f"node {frozen} back after", before[node_id])
        assert _is_alive(cluster, node_id, frozen)
        _wait_for_gauge(cluster, node_id, frozen, 1)


@pytest.mark.parametrize(
    ("query", "named"),
    [("?since=x", "since=x"), ("?since=-1", "since=-1"), ("?since=1&since=2", "1,2"), ("?till=3", "till")],
)
def test_a_request_for_events_that_makes_no_sense_is_refused(
    shared_cluster: BrokerCluster, query: str, named: str
) -> None:
    status, body = get_json(shared_cluster[1].admin, f"/v1/events{query}", timeout=10)
    assert status == 400
    assert named in body["error"]
