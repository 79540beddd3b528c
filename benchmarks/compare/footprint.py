"""Memory and CPU of brokers that have nothing to do: with ten partitions, and with a topic of a thousand."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.cimpl import NewTopic

from benchmarks.cluster import TOPIC, Cluster, eventually, running_cluster
from benchmarks.compare.verdict import Target, row
from benchmarks.kafka.kafka_cluster import running_kafka
from benchmarks.plan import Plan
from benchmarks.processes import cpu_seconds, rss_megabytes
from raftka.kafka import client as kafka_client

_FEW, _MANY = 10, 1000
_REPLICAS = 3
_REST_SECONDS, _WINDOW_SECONDS = 60.0, 20.0
_QUICK_REST_SECONDS, _QUICK_WINDOW_SECONDS = 5.0, 3.0
_IN_SYNC_SECONDS = 300.0
_CREATE_SECONDS = 60.0
# Memory in MB and CPU in percent of one core that the worst broker may use.
_BOUNDS = {_FEW: (80.0, 2.0), _MANY: (200.0, 10.0)}

_Running = Callable[[Path], AbstractContextManager[Cluster]]


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return memory and CPU of each broker; the clusters run one after the other, each alone on the machine."""
    clusters: dict[str, _Running] = {"raftka": running_cluster, "kafka": running_kafka}
    found = {name: _measure_cluster(running, data_dir, plan) for name, running in clusters.items()}
    rows = []
    for partitions, (memory, cpu) in _BOUNDS.items():
        ours, theirs = ([max(found[name][partitions][key]) for key in ("rss", "cpu")] for name in clusters)
        what = f"worst of three idle brokers, {partitions:,} partitions"
        bounds = Target("<=", memory, "value"), Target("<=", cpu, "value")
        rows.append(row(f"{what}: resident memory", "MB", ours[:1], theirs[:1], bounds[0]))
        rows.append(row(f"{what}: CPU of one core", "%", ours[1:], theirs[1:], bounds[1]))
    return {
        "what": f"each of three brokers without clients, {_REST_SECONDS:.0f} s after the start or, for {_MANY:,} "
        f"partitions, after every replica was in sync; CPU over {_WINDOW_SECONDS:.0f} s from then; three replicas",
        "rows": rows,
        "brokers": {name: {str(number): each for number, each in known.items()} for name, known in found.items()},
    }


def _measure_cluster(running: _Running, data_dir: Path, plan: Plan) -> dict[int, dict[str, list[float]]]:
    rest, window = (_QUICK_REST_SECONDS, _QUICK_WINDOW_SECONDS) if plan.is_quick else (_REST_SECONDS, _WINDOW_SECONDS)
    with running(data_dir) as cluster:
        began = time.monotonic()
        with _topic(cluster, _FEW):
            time.sleep(max(0.0, began + rest - time.monotonic()))
            few = _look(cluster, window)
        with _topic(cluster, _MANY):
            time.sleep(rest)
            return {_FEW: few, _MANY: _look(cluster, window)}


@contextmanager
def _topic(cluster: Cluster, partitions: int) -> Iterator[None]:
    """Hold a topic whose replicas are all in sync, as Metadata tells: to ask for each partition would be traffic."""

    def found() -> list[kafka_client.PartitionInfo]:
        return kafka_client.read_cluster(cluster.bootstrap).topics.get(TOPIC, [])

    def is_in_sync() -> bool | None:
        known = found()
        return (len(known) == partitions and all(len(each.in_sync) == _REPLICAS for each in known)) or None

    _create(cluster.bootstrap, partitions)
    try:
        eventually(f"{partitions} partitions in sync", is_in_sync, _IN_SYNC_SECONDS)
        yield
    finally:
        kafka_client.delete_topic(cluster.bootstrap, TOPIC)
        eventually("the topic is gone", lambda: not found() or None, _IN_SYNC_SECONDS)


def _create(bootstrap: str, partitions: int) -> None:
    """Create the topic with all the time that a thousand leaders need."""
    topic = NewTopic(TOPIC, num_partitions=partitions, replication_factor=_REPLICAS)
    with kafka_client.one_line_errors(bootstrap):
        admin = kafka_client.new_admin(bootstrap)
        futures = admin.create_topics([topic], operation_timeout=_CREATE_SECONDS, request_timeout=_CREATE_SECONDS)
        futures[TOPIC].result(2 * _CREATE_SECONDS)


def _look(cluster: Cluster, seconds: float) -> dict[str, list[float]]:
    pids = cluster.pids.values()
    memory = [rss_megabytes(pid) for pid in pids]
    before = {pid: cpu_seconds(pid) for pid in pids}
    began = time.perf_counter()
    time.sleep(seconds)
    elapsed = time.perf_counter() - began
    return {"rss": memory, "cpu": [round(100 * (cpu_seconds(pid) - before[pid]) / elapsed, 2) for pid in pids]}
