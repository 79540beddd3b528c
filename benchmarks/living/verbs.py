"""Changes of a cluster by the verbs of its admin ports, and what the ports tell of its brokers."""

from typing import Any

from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError
from raftka.admin_client import request_json

_SECONDS = 30.0


def ask(cluster: BenchCluster, path: str, document: dict[str, Any] | None = None) -> Any:
    """Return what a running broker answers to a GET, or to a POST of `document`.

    Raises:
        BenchmarkError: It refuses.
        AdminError: It does not answer.
    """
    address = next(broker.addresses.admin for broker in cluster.brokers if broker.is_alive)
    method = "GET" if document is None else "POST"
    status, body = request_json(address, path, _SECONDS, method=method, document=document)
    if status != 200:
        raise BenchmarkError(f"{method} {path}: status {status}, {body}")
    return body


def move(cluster: BenchCluster, replicas: list[int], topic: str = TOPIC) -> None:
    """Begin to move partition 0 of a topic to these brokers."""
    ask(cluster, "/v1/moves", {"moves": [{"topic": topic, "partition": 0, "replicas": replicas}]})


def raft0_roles(cluster: BenchCluster) -> dict[int, str]:
    """Return what each broker is in raft0, voter or learner, by node id."""
    return {row["node_id"]: row["raft0"] for row in ask(cluster, "/v1/brokers")}
