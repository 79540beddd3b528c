"""What a scrape costs a broker at 10, 1,000 and 2,500 replicas, and what producers feel of one a second."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
_PATHS = ("/metrics", "/metrics/partitions")
_SCRAPES, _QUICK_SCRAPES = 20, 3
# An answer is kept for a second: whoever asks later pays for a new one.
_PAUSE_SECONDS = 1.1
_RATE = 1_000
_REPLICATION = 3
_CREATE_SECONDS = 300.0


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return the cost of a scrape, and latencies with and without one a second."""
    rows = []
    for size in _QUICK_SIZES if plan.is_quick else _SIZES:
        print(f"   -- {size} replicas", flush=True)
        with running_cluster(data_dir) as cluster:
            _create(cluster, size)
            for path in _PATHS:
                rows += _cost(cluster, path, size, _QUICK_SCRAPES if plan.is_quick else _SCRAPES)
    size = _QUICK_UNDER_LOAD if plan.is_quick else _SIZE_UNDER_LOAD
    with running_cluster(data_dir) as cluster:
        _create(cluster, size)
        with cluster.topic(1):
            with_scrapes, without = _latencies(cluster, plan)
    for name, target in (("p50", ()), ("p99", (Target("<=", 1.1),))):
        what = f"{_RATE}/s of 1 KiB, acks=all, with a scrape of {size} replicas a second: {name}"
        key = f"{name}_ms"
        ours, theirs = [run[key] for run in with_scrapes], [run[key] for run in without]
        rows.append(row(what, "ms", ours, theirs, *target, peer="without"))
    return {
        "what": "three brokers; the cost is the broker's CPU time while it is scraped, less what it takes at rest",
        "rows": rows,
        "with_scrapes": with_scrapes,
        "without": without,
    }


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


def _latencies(cluster: BenchCluster, plan: Plan) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Return the latencies of runs with and without scrapes, in turns."""
    with_scrapes: list[dict[str, float]] = []
    without: list[dict[str, float]] = []
    for number in range(plan.pairs):
        for is_scraped in (True, False) if number % 2 == 0 else (False, True):
            options = latency_options(cluster, "open", plan, rate=_RATE)
            if is_scraped:
                with _scraped(cluster):
                    found = quantiles(native_client.run("producer", options))
            else:
                found = quantiles(native_client.run("producer", options))
            (with_scrapes if is_scraped else without).append(dict(found))
    return with_scrapes, without


@contextmanager
def _scraped(cluster: BenchCluster) -> Iterator[None]:
    """Scrape every broker once a second meanwhile, both paths."""
    halt = threading.Event()
    failures: list[BenchmarkError] = []

    def scrape(address: str) -> None:
        try:
            while not halt.wait(1.0):
                for path in _PATHS:
                    _scrape(address, path)
        except BenchmarkError as error:
            failures.append(error)

    threads = [threading.Thread(target=scrape, args=(each.addresses.admin,), daemon=True) for each in cluster.brokers]
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
