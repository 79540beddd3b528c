"""What the other brokers tell of one that is killed, started again and stopped: in the log and at /v1/events."""

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


@pytest.mark.parametrize(
    ("query", "named"),
    [("?since=x", "since=x"), ("?since=-1", "since=-1"), ("?since=1&since=2", "1,2"), ("?till=3", "till")],
)
def test_a_request_for_events_that_makes_no_sense_is_refused(
    make_cluster: ClusterMaker, query: str, named: str
) -> None:
    cluster = make_cluster(1)
    cluster.start()
    status, body = get_json(cluster[1].admin, f"/v1/events{query}", timeout=10)
    assert status == 400
    assert named in body["error"]
