"""A broker that starts says on its admin port that it lives, what it waits for, and what helps."""

from typing import Any

import pytest

from raftka.admin_client import get_json, not_ready_reason
from tests.process.broker_processes import RPC_PORT, BrokerProcess, ClusterMaker, eventually

pytestmark = pytest.mark.process


def _ready(broker: BrokerProcess, *parts: str) -> dict[str, Any]:
    """Wait until the reason of a broker that is not ready has all these parts, and return the answer."""

    def answer() -> dict[str, Any] | None:
        # Until the port is open, the reason is that it is not.
        reason = not_ready_reason(broker.admin) or ""
        if not all(part in reason for part in parts):
            return None
        status, body = get_json(broker.admin, "/v1/status/ready")
        # The reason that counts is the one that is returned: another may have come in between.
        if status != 503 or not all(part in body["reason"] for part in parts):
            return None
        return dict(body)

    return eventually(lambda: f"{' and '.join(parts)}; now: {not_ready_reason(broker.admin)}", answer)


def test_a_broker_lives_and_names_the_seeds_it_waits_for_until_they_come(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    first = cluster[1]
    first.start()
    answer = _ready(first, f"3@{cluster.network}.3:{RPC_PORT} (nobody listens there)")
    assert (answer["ready"], answer["node_id"]) == (False, 1)
    assert answer["reason"].startswith("starting: waiting for seeds to found the cluster: 2@")
    assert "start the brokers that do not answer (2, 3)" in answer["cure"]
    assert get_json(first.admin, "/v1/status/live") == (200, {"live": True, "node_id": 1})
    for path in ("/v1/brokers", "/metrics", "/nowhere"):
        status, body = get_json(first.admin, path)
        assert status == 503
        assert body["error"].startswith("node 1 is starting: waiting for seeds")

    cluster[2].start()
    _ready(first, f"the cluster: 3@{cluster.network}.3:{RPC_PORT} (nobody listens there)")
    # A clean end, though there is nothing to hand over.
    assert cluster[2].terminate() == 0
    assert "handed over" not in cluster[2].log_text()
    cluster[2].start()
    cluster[3].start()
    cluster.wait_ready()
    assert get_json(first.admin, "/v1/status/ready") == (200, {"ready": True, "node_id": 1})
    assert get_json(first.admin, "/v1/status/live") == (200, {"live": True, "node_id": 1})
    assert len(get_json(first.admin, "/v1/brokers")[1]) == 3


def test_a_broker_with_another_secret_says_so_before_the_cluster_is_founded(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    other = cluster.folder / "other-secret"
    other.touch(0o600)
    other.write_bytes(b"guessed, and long enough")
    cluster[3].config["cluster.secret.file"] = str(other)
    for broker in cluster.brokers.values():
        broker.start()
    # The reason grows: broker 3 hears of one other broker before it hears of the second.
    different = "and this broker (3) have different cluster secrets"
    answer = _ready(cluster[3], f"broker 1 {different}", f"broker 2 {different}")
    assert "put the same secret into the file of cluster.secret.file on every broker" in answer["cure"]
    _ready(cluster[1], "broker 3 and this broker (1) have different cluster secrets")
    # It waits on, because the other file may be the wrong one; and it stops when it is told to.
    assert cluster[3].is_running
    assert cluster[3].terminate() == 0
    cluster[3].config["cluster.secret.file"] = str(cluster.secret_path)
    cluster[3].start()
    cluster.wait_ready()
