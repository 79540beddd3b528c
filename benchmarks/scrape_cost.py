"""What a scrape costs a broker at 10, 1,000 and 2,500 replicas, and what producers feel of one a second."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import native_client
from benchmarks.cluster import DEADLINE_SECONDS, BenchCluster, BenchmarkError, eventually, running_cluster
from benchmarks.compare.latencies import latency_options, quantiles
from benchmarks.compare.verdict import Target, row
from benchmarks.plan import Plan
from benchmarks.processes import cpu_seconds
from raftka.kafka.client import create_topic

_MANY = "many"
# Replicas of each broker: raft0 is one more.
_SIZES, _QUICK_SIZES = (10, 1_000, 2_490), (10,)
_SIZE_UNDER_LOAD, _QUICK_UNDER_LOAD = 1_000, 10
_NODE_PATH, _REPLICAS_PATH = "/metrics", "/metrics/partitions"
# What is scraped while producers are measured. Nothing comes first: the others are compared with it.
_SCRAPED = ((), (_NODE_PATH,), (_NODE_PATH, _REPLICAS_PATH))
_Runs: TypeAlias = dict[tuple[str, ...], list[dict[str, float]]]
_SCRAPES, _QUICK_SCRAPES = 20, 3
# An answer is kept for a second: whoever asks later pays for a new one.
_PAUSE_SECONDS = 1.1
_RATE = 1_000
_REPLICATION = 3
_CREATE_SECONDS = 300.0
_PAIRS = 11


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return the cost of a scrape, and latencies with and without one a second."""
    rows = []
    for size in _QUICK_SIZES if plan.is_quick else _SIZES:
        print(f"   -- {size} replicas", flush=True)
        with running_cluster(data_dir) as cluster:
            _create(cluster, size)
            for path in (_NODE_PATH, _REPLICAS_PATH):
                rows += _cost(cluster, path, size, _QUICK_SCRAPES if plan.is_quick else _SCRAPES)
    size = _QUICK_UNDER_LOAD if plan.is_quick else _SIZE_UNDER_LOAD
    with running_cluster(data_dir) as cluster:
        _create(cluster, size)
        with cluster.topic(1):
            runs = _latencies(cluster, plan)
    rows += _felt(size, runs)
    return {
        "what": "three brokers; the cost is the broker's CPU time while it is scraped, less what it takes at rest",
        "rows": rows,
        "latencies": [{"scraped": list(paths), "runs": found} for paths, found in runs.items()],
    }


def _felt(size: int, runs: _Runs) -> list[dict[str, Any]]:
    """Compare each choice of paths with no scrape at all."""
    rows = []
    for paths in _SCRAPED[1:]:
        for name in ("p50", "p99"):
            target = (Target("<=", 1.1),) if paths == (_NODE_PATH,) and name == "p99" else ()
            what = f"{_RATE}/s of 1 KiB, acks=all, {' and '.join(paths)} of {size} replicas scraped each second: {name}"
            ours, theirs = ([run[f"{name}_ms"] for run in runs[each]] for each in (paths, ()))
            rows.append(row(what, "ms", ours, theirs, *target, peer="without"))
    return rows


def _create(cluster: BenchCluster, replicas: int) -> None:
    create_topic(cluster.bootstrap, _MANY, replicas, _REPLICATION, seconds=_CREATE_SECONDS)

    def settled() -> bool | None:
        last = cluster.partition(replicas - 1, _MANY)
        return True if last is not None and last["leader"] != -1 and len(last["in_sync"]) == _REPLICATION else None

    eventually("the last partition is in sync", settled, max(DEADLINE_SECONDS, _CREATE_SECONDS))


def _cost(cluster: BenchCluster, path: str, size: int, count: int) -> list[dict[str, Any]]:
    broker = cluster.brokers[0]
    pid = cluster.pids[broker.node_id]
    at_rest = cpu_seconds(pid)
    time.sleep(count * _PAUSE_SECONDS)
    at_rest = cpu_seconds(pid) - at_rest
    before, durations, bytes_read = cpu_seconds(pid), [], 0
    for _ in range(count):
        began = time.perf_counter()
        bytes_read = len(_scrape(broker.addresses.admin, path))
        durations.append(1000 * (time.perf_counter() - began))
        time.sleep(max(0.0, _PAUSE_SECONDS - (time.perf_counter() - began)))
    cpu = 1000 * max(0.0, cpu_seconds(pid) - before - at_rest) / count
    what = f"{path} at {size} replicas"
    return [
        row(f"{what}: CPU time of a scrape", "ms", [cpu]),
        row(f"{what}: until the answer is read, median of {count}", "ms", durations),
        row(f"{what}: size", "KB", [bytes_read / 1000]),
    ]


def _scrape(address: str, path: str) -> bytes:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=30.0)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise BenchmarkError(f"no metrics from {address}: {error}") from error
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise BenchmarkError(f"{path} of {address} answers {response.status}")
    return text


def _latencies(cluster: BenchCluster, plan: Plan) -> _Runs:
    """Return the latencies of runs with each choice of paths, in turns."""
    runs: _Runs = {paths: [] for paths in _SCRAPED}
    # A p99 of 15,000 records differs by a third from run to run.
    for number in range(plan.pairs if plan.is_quick else _PAIRS):
        for paths in _SCRAPED if number % 2 == 0 else reversed(_SCRAPED):
            options = latency_options(cluster, "open", plan, rate=_RATE)
            with _scraped(cluster, paths):
                runs[paths].append(dict(quantiles(native_client.run("producer", options))))
    return runs


@contextmanager
def _scraped(cluster: BenchCluster, paths: tuple[str, ...]) -> Iterator[None]:
    """Scrape these paths of every broker once a second meanwhile."""
    halt = threading.Event()
    failures: list[BenchmarkError] = []

    def scrape(address: str, offset: float) -> None:
        try:
            # Prometheus asks each target at a moment of its own.
            halt.wait(offset)
            while not halt.wait(1.0):
                for path in paths:
                    _scrape(address, path)
        except BenchmarkError as error:
            failures.append(error)

    threads = [
        threading.Thread(target=scrape, args=(each.addresses.admin, number / len(cluster.brokers)), daemon=True)
        for number, each in enumerate(cluster.brokers)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        halt.set()
        for thread in threads:
            thread.join(60.0)
    if failures:
        raise failures[0]
