"""What a connection costs that is open and idle: memory of the broker for each of two thousand."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benchmarks.cluster import DEADLINE_SECONDS, BenchmarkError, Cluster, running_cluster
from benchmarks.compare.verdict import Target, row
from benchmarks.kafka.kafka_cluster import running_kafka
from benchmarks.machine import allow_many_files
from benchmarks.plan import Plan
from benchmarks.processes import cpu_seconds, rss_megabytes
from benchmarks.wire.connection import WireConnection
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import ApiVersionsRequest, MetadataRequest

_COUNT, _QUICK_COUNT = 2000, 200
_WARM_UP = 100
_REST_SECONDS, _WINDOW_SECONDS = 5.0, 10.0
_QUICK_SECONDS = 1.0
_API_VERSIONS, _METADATA = 3, 9
_POLL_SECONDS = 0.2
_KB = 1e-3
# Kafka refuses a client without a name.
_WHO = ApiVersionsRequest(client_software_name="benchmark", client_software_version="1")

_Running = Callable[[Path], AbstractContextManager[Cluster]]


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return KB of resident memory for each connection; the clusters run one after the other."""
    allow_many_files()
    clusters: dict[str, _Running] = {"raftka": running_cluster, "kafka": running_kafka}
    found = {name: _measure_cluster(running, data_dir, plan) for name, running in clusters.items()}
    ours, theirs = ([found[name][key] for key in ("kilobytes", "cpu_percent")] for name in clusters)
    count = _QUICK_COUNT if plan.is_quick else _COUNT
    what = f"{count:,} idle connections to one broker"
    return {
        "what": "resident memory that a broker has more with the connections than before, for each; every connection "
        "has asked for the versions and the metadata once. The kernel's buffers are not in it, nor is what Kafka takes "
        "from a heap that it has touched already",
        "rows": [
            row(f"{what}: memory of each", "KB", ours[:1], theirs[:1], Target("<=", 30, "value")),
            row(f"{what}: CPU of one core", "%", ours[1:], theirs[1:]),
        ],
        "brokers": found,
    }


def _measure_cluster(running: _Running, data_dir: Path, plan: Plan) -> dict[str, float]:
    with running(data_dir) as cluster:
        return asyncio.run(_measure_broker(cluster, plan))


async def _measure_broker(cluster: Cluster, plan: Plan) -> dict[str, float]:
    count = _QUICK_COUNT if plan.is_quick else _COUNT
    rest, window = (_QUICK_SECONDS,) * 2 if plan.is_quick else (_REST_SECONDS, _WINDOW_SECONDS)
    # The broker behind the first address is the one with the lowest number.
    address, pid = cluster.bootstrap.split(",")[0], cluster.pids[min(cluster.pids)]
    await _wait_served(address)
    await close_all(await open_served(address, _WARM_UP))
    await asyncio.sleep(rest)
    before = rss_megabytes(pid)
    connections = await open_served(address, count)
    try:
        await asyncio.sleep(rest)
        after, cpu = rss_megabytes(pid), cpu_seconds(pid)
        await asyncio.sleep(window)
        used = 100 * (cpu_seconds(pid) - cpu) / window
    finally:
        await close_all(connections)
    kilobytes = max(after - before, 0.0) * 1e6 * _KB / count
    return {"connections": count, "rss_before_mb": before, "rss_mb": after, "kilobytes": kilobytes, "cpu_percent": used}


async def _wait_served(address: str) -> None:
    """Wait until this broker serves: its cluster is complete when any of them knows them all."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            await close_all(await open_served(address, 1))
            return
        except BenchmarkError:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(_POLL_SECONDS)


async def open_served(address: str, count: int) -> list[WireConnection]:
    """Return connections that were served with a client's first two requests.

    Raises:
        BenchmarkError: One was not.
    """
    connections = []
    for _ in range(count):
        connection = await WireConnection.open(address)
        connections.append(connection)
        versions = await connection.call(ApiKey.API_VERSIONS, _API_VERSIONS, _WHO)
        metadata = await connection.call(ApiKey.METADATA, _METADATA, MetadataRequest(topics=[]))
        if versions.error_code or not metadata.brokers:
            raise BenchmarkError(f"{address} does not serve a new connection")
    return connections


async def close_all(connections: Sequence[WireConnection]) -> None:
    """End all of them."""
    await asyncio.gather(*(each.close() for each in connections))
