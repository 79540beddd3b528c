"""Partitions of a cluster of real brokers are moved by the admin port, which any of its brokers answers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from raftka.admin_client import AdminError, request_json
from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.command_line import raftka
from tests.process.kafka_topics import alter

_RATES = [f"{role}.replication.throttled.rate" for role in ("leader", "follower")]
_LISTS = [f"{role}_replication_throttled_replicas" for role in ("leader", "follower")]
# So slow that no test sees the end of a move of more than a few records.
_BYTES_PER_SECOND = 1_000


def ask(cluster: BrokerCluster, path: str, document: dict[str, Any] | None = None) -> Any:
    """Return what the first broker answers that has an answer, None if none has; a document is sent by POST."""
    for broker in cluster.running:
        method = "GET" if document is None else "POST"
        try:
            status, body = request_json(broker.admin, path, 5.0, method=method, document=document)
        except AdminError:
            continue
        if status == 200:
            return body
    return None


def replicas_of(cluster: BrokerCluster, topic: str, partition: int = 0) -> list[int]:
    """Return the brokers that hold a partition, in the order of the placement."""
    status = eventually(f"somebody tells of {topic}-{partition}", lambda: cluster.partition(topic, partition))
    return [int(node) for node in status["replicas"]]


def start_move(cluster: BrokerCluster, topic: str, target: Sequence[int]) -> None:
    """Begin to move partition 0 of a topic, also to more or fewer brokers."""
    wanted = {"topic": topic, "partition": 0, "replicas": list(target)}
    body = {"moves": [wanted], "may_change_count": True}
    eventually(f"a move of {topic} to {target} begins", lambda: ask(cluster, "/v1/moves", body))


def cancel_move(cluster: BrokerCluster, topic: str) -> None:
    """Begin to take partition 0 of a topic back to where it was."""
    body = {"partitions": [{"topic": topic, "partition": 0}]}
    eventually(f"the move of {topic} is cancelled", lambda: ask(cluster, "/v1/moves/cancel", body))


def move_of(cluster: BrokerCluster, topic: str) -> dict[str, Any] | None:
    """Return how far the move of a topic's partition 0 is; None if it is not being moved."""
    told = eventually("somebody tells of the moves", lambda: ask(cluster, "/v1/moves"))
    return next((dict(each) for each in told["moves"] if (each["topic"], each["partition"]) == (topic, 0)), None)


def await_moved(cluster: BrokerCluster, topic: str, target: Sequence[int]) -> None:
    """Wait until partition 0 of a topic is where it was to be, and the move has ended."""

    def is_moved() -> bool:
        moves = ask(cluster, "/v1/moves")
        if moves is None or any(each["topic"] == topic for each in moves["moves"]):
            return False
        status = cluster.partition(topic, 0)
        return status is not None and status["replicas"] == list(target)

    eventually(lambda: f"{topic} moved to {target}: {ask(cluster, '/v1/moves')}{cluster.log_tails()}", is_moved)


@contextmanager
def throttled(cluster: BrokerCluster, topic: str) -> Iterator[None]:
    """Within it, replicas of a topic are copied too slowly for a move to end."""
    alter(cluster, topic, **dict.fromkeys(_LISTS, "*"))
    rates = [f"{key}={_BYTES_PER_SECOND}" for key in _RATES]
    raftka("cluster", "config", "set", *rates, RAFTKA_BROKERS=cluster.bootstrap)
    try:
        yield
    finally:
        raftka("cluster", "config", "unset", *_RATES, RAFTKA_BROKERS=cluster.bootstrap)
        alter(cluster, topic, **dict.fromkeys(_LISTS))
