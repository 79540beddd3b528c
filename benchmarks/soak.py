"""Ten minutes of all that a producer can send, with retention: elections, the largest lag of an event loop, memory."""

import http.client
import re
import shutil
import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, running_cluster
from benchmarks.compare.verdict import Target, row
from benchmarks.plan import Plan
from benchmarks.processes import rss_megabytes

_SECONDS, _QUICK_SECONDS = 600.0, 12.0
_RETENTION = {"retention.bytes": str(1 << 30)}
_PARTITIONS = 3
_SAMPLE_SECONDS, _QUICK_SAMPLE_SECONDS = 5.0, 1.0
_PROBE_SECONDS = 0.02
_FREE_BYTES_MIN = 10 << 30
_ELECTIONS = re.compile(r"^raftka_raft_elections_started_total (\S+)$", re.MULTILINE)
_LAG = re.compile(r"^raftka_\w*loop_lag\w*max\w*(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return elections, lag and memory over the whole run.

    Raises:
        BenchmarkError: The disk fills up: segments are not removed.
    """
    seconds, every = (_QUICK_SECONDS, _QUICK_SAMPLE_SECONDS) if plan.is_quick else (_SECONDS, _SAMPLE_SECONDS)
    with running_cluster(data_dir) as cluster, cluster.topic(_PARTITIONS, _RETENTION):
        elections = _elections(cluster)
        watch = _Watch(cluster, data_dir, every)
        options = {"mode": "flood", "brokers": cluster.bootstrap, "topic": TOPIC, "seconds": seconds}
        with native_client.started("producer", options) as client, watch:
            watch.stop_when_full(client)
            try:
                produced = client.finish().numbers
            except BenchmarkError as error:
                # A client that was ended says less than who ended it.
                raise BenchmarkError(watch.failure or str(error)) from error
        elections = _elections(cluster) - elections
        lag = max(watch.lags, default=0.0)
    growth = _growth(watch.memory)
    length = f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
    what = f"{length} of full load with retention.bytes=1 GiB"
    return {
        "what": f"one librdkafka producer, 1 KiB, acks=all, {_PARTITIONS} partitions with three replicas; lag is what "
        "the brokers report, or else the longest answer of an admin port under the same load, which is more; growth "
        "is the median memory of the last third of the run, divided by that of the second",
        "rows": [
            row(f"{what}: elections", "", [elections], [], Target("<=", 0, "value")),
            row(f"{what}: largest loop lag", "ms", [1000 * (lag or watch.longest)], [], Target("<=", 150, "value")),
            row(f"{what}: growth of memory, worst broker", "x", [growth], [], Target("<=", 1.1, "value")),
        ],
        "megabytes_per_second": round(produced["records"] * produced["size"] / produced["seconds"] / 1e6, 1),
        "errors": produced["errors"],
        "longest_admin_answer_ms": round(1000 * watch.longest, 1),
        "reported_loop_lag_ms": round(1000 * lag, 1) if lag else None,
        "rss_megabytes": {str(node): samples for node, samples in watch.memory.items()},
    }


@dataclass(slots=True)
class _Watch:
    """Samples memory, loop lag and the time of answers from threads, while a client runs."""

    cluster: BenchCluster
    data_dir: Path
    every: float
    memory: dict[int, list[float]] = field(default_factory=dict)
    lags: list[float] = field(default_factory=list)
    longest: float = 0.0
    failure: str = ""
    _client: native_client.ClientProcess | None = None
    _halt: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> "_Watch":
        addresses = [broker.addresses.admin for broker in self.cluster.brokers]
        self._threads = [threading.Thread(target=self._probe, args=(each,), daemon=True) for each in addresses]
        self._threads.append(threading.Thread(target=self._sample, daemon=True))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._halt.set()
        for thread in self._threads:
            thread.join(30.0)

    def stop_when_full(self, client: native_client.ClientProcess) -> None:
        """Name the client that is ended when the disk runs full."""
        self._client = client

    def _sample(self) -> None:
        pids = self.cluster.pids
        while not self._halt.wait(self.every):
            for node, pid in pids.items():
                self.memory.setdefault(node, []).append(rss_megabytes(pid))
            # A broker tells the longest of the last 50 to 60 s.
            self.lags += _reported_lags(self.cluster)
            if shutil.disk_usage(self.data_dir).free < _FREE_BYTES_MIN and self._client is not None:
                self.failure = "the disk fills up: retention.bytes does not remove segments as fast as they come"
                self._client.process.terminate()

    def _probe(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=10.0)
        while not self._halt.wait(_PROBE_SECONDS):
            began = time.perf_counter()
            try:
                connection.request("GET", "/v1/status/ready")
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()
            self.longest = max(self.longest, time.perf_counter() - began)
        connection.close()


def _growth(memory: dict[int, list[float]]) -> float:
    thirds = {node: len(samples) // 3 for node, samples in memory.items()}
    ratios = [
        statistics.median(samples[-thirds[node] :]) / statistics.median(samples[thirds[node] : -thirds[node]])
        for node, samples in memory.items()
        if thirds[node]
    ]
    return max(ratios, default=float("inf"))


def _elections(cluster: BenchCluster) -> float:
    return sum(float(found) for text in cluster.metrics() for found in _ELECTIONS.findall(text))


def _reported_lags(cluster: BenchCluster) -> list[float]:
    """Return the largest lag (s) of late of each event loop that tells one; an older version's is since its start."""
    return [float(found) for text in cluster.metrics() for found in _LAG.findall(text)]
