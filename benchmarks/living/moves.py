"""What a move of a partition costs those who write to it, how exact its throttle is, and its CPU time per GiB.

Four brokers; one partition with three replicas, filled beforehand. Kafka's own tool moves one of its replicas to the
fourth broker, and the next move goes back. Each move carries the whole log. Apache Kafka moves as much afterwards, on
the same machine: both would not find room in its page cache.
"""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, Cluster, eventually, running_cluster
from benchmarks.compare.latencies import latency_options, quantiles
from benchmarks.compare.verdict import Target, row
from benchmarks.kafka.kafka_cluster import java_command, running_kafka
from benchmarks.load import CountingProducer, client_facts
from benchmarks.machine import wait_for_rest
from benchmarks.plan import Plan
from benchmarks.processes import cpu_seconds
from raftka.kafka import client as kafka_client

_NODES, _REPLICAS = 4, 3
_MIB = 1024**2
_GIB = 1024**3
_BYTES, _QUICK_BYTES = 4 * _GIB, 128 * _MIB
_LOAD_PER_SECOND = 10_000
_LOAD_LINGER_MS = 5
_THROTTLE, _NO_THROTTLE = 20_000_000, 10_000_000_000
_FILL_SECONDS = 1800.0
_MOVE_SECONDS = 3600.0
_TOOL_SECONDS = 120.0
_RECORD_BYTES = 1024
_RECOVERED = re.compile(r"^raftka_raft_recovery_bytes_total (\S+)$", re.MULTILINE)


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return p99 beside a move and without one, the error of a throttle, and CPU seconds per GiB.

    Raises:
        BenchmarkError: Something needed is missing, or a move does not end.
    """
    size = _QUICK_BYTES if plan.is_quick else _BYTES
    with running_cluster(data_dir, nodes=_NODES) as cluster, cluster.topic(1):
        _fill(cluster, size)
        moves = _Moves(cluster, data_dir)
        latencies = [_beside(cluster, moves, plan) for _ in range(plan.pairs)]
        costs = [_cost(cluster, moves) for _ in range(plan.pairs)]
        throttled = _throttled(cluster, moves)
    with running_kafka(data_dir, nodes=_NODES) as kafka, kafka.topic(1):
        held = _fill(kafka, size)
        moves = _Moves(kafka, data_dir)
        kafka_costs = [_kafka_cost(kafka, moves, held) for _ in range(plan.pairs)]
    return {
        "what": f"a move of one of three replicas with {size / _GIB:g} GiB, by kafka-reassign-partitions",
        "client": client_facts(),
        "rows": _rows(latencies, costs, kafka_costs, throttled, size),
        "latencies": latencies,
        "costs": costs,
        "kafka_costs": kafka_costs,
        "throttled": throttled,
    }


def _rows(
    latencies: list[dict[str, Any]],
    costs: list[dict[str, float]],
    kafka_costs: list[dict[str, float]],
    throttled: dict[str, float],
    size: int,
) -> list[dict[str, Any]]:
    load = f"{_LOAD_PER_SECOND:,}/s of 1 KiB at acks=all with linger {_LOAD_LINGER_MS} ms"
    beside = [each["beside"]["p99_ms"] for each in latencies]
    alone = [each["alone"]["p99_ms"] for each in latencies]
    what = f"{size / _GIB:g} GiB move to another broker"
    error = 100 * abs(throttled["bytes_per_second"] / _THROTTLE - 1)
    return [
        row(f"{load} beside a {what}: p99", "ms", beside, alone, Target("<=", 2.0), peer="the load alone"),
        *(
            row(f"{what}: {name} per GiB", "s", [each[key] for each in costs], [each[key] for each in kafka_costs])
            for key, name in (("cpu_per_gib", "CPU time of all brokers"), ("seconds_per_gib", "time"))
        ),
        row(f"throttle at {_THROTTLE / 1e6:g} MB/s: error", "%", [error], [], Target("<=", 10.0, "value")),
    ]


class _Moves:
    """Moves the partition back and forth, by Kafka's tool."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._plan = folder / "move.json"

    def begin(self, *options: str) -> list[int]:
        """Start a move; return the brokers it goes to. It is under way when this returns, or has ended."""
        # The broker that is asked may not have heard yet that the last move has ended.
        now = eventually("no move is under way", self._at_rest)
        (other,) = set(self._cluster.pids) - set(now.replicas)
        # Not the leader: what is measured is a move, and no change of leaders.
        leaves = next(node for node in reversed(now.replicas) if node != now.leader)
        target = [other if node == leaves else node for node in now.replicas]
        moved = {"topic": TOPIC, "partition": 0, "replicas": target}
        self._plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
        self._run("--execute", *options)
        return target

    def _at_rest(self) -> kafka_client.PartitionInfo | None:
        (now,) = kafka_client.read_cluster(self._cluster.bootstrap).topic(TOPIC)
        return now if len(now.replicas) == _REPLICAS else None

    def verify(self) -> None:
        """Let the tool clear what throttles it has set."""
        self._run("--verify")

    def is_done(self, target: list[int]) -> bool:
        """Whether a move has ended."""
        (now,) = kafka_client.read_cluster(self._cluster.bootstrap).topic(TOPIC)
        return now.replicas == target

    def wait(self, target: list[int]) -> None:
        """Wait until a move has ended."""
        eventually("the move has ended", lambda: self.is_done(target) or None, _MOVE_SECONDS)
        self._cluster.wait_in_sync(1)

    def _run(self, *words: str) -> None:
        main = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
        brokers = ["--bootstrap-server", self._cluster.bootstrap, "--reassignment-json-file", str(self._plan)]
        command = java_command(main, *brokers, *words)
        found = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False)
        if found.returncode != 0:
            raise BenchmarkError(f"kafka-reassign-partitions: {(found.stdout + found.stderr).strip()[-500:]}")


def _fill(cluster: Cluster, size: int) -> int:
    """Fill the partition with at least `size` bytes of values; return how many they are."""
    with CountingProducer(cluster.bootstrap, "all") as producer:
        enough = size // _RECORD_BYTES
        eventually("the partition is filled", lambda: producer.acked >= enough or None, _FILL_SECONDS)
    if producer.errors:
        raise BenchmarkError(f"records were refused: {producer.errors[0]}")
    cluster.wait_in_sync(1)
    return producer.acked * _RECORD_BYTES


def _load(cluster: BenchCluster, plan: Plan) -> dict[str, float]:
    options = latency_options(cluster, "open", plan, _LOAD_LINGER_MS, rate=_LOAD_PER_SECOND)
    return dict(quantiles(native_client.run("producer", options)))


def _beside(cluster: BenchCluster, moves: _Moves, plan: Plan) -> dict[str, Any]:
    """Measure the load alone, then the same load in one window after the other while a move is under way.

    A window that outlasts the move counts only if there is no other, and only in a quick run: the result says so
    (`is_covered`).

    Raises:
        BenchmarkError: The move was shorter than a window.
    """
    # What the last move has written would be written back meanwhile.
    wait_for_rest()
    alone = _load(cluster, plan)
    target = moves.begin()
    windows: list[dict[str, float]] = []
    is_covered = False
    while True:
        found = _load(cluster, plan)
        is_done = moves.is_done(target)
        if not is_done or not windows:
            windows.append(found)
            is_covered = is_covered or not is_done
        if is_done:
            break
    if not is_covered and not plan.is_quick:
        raise BenchmarkError("the move ends before a window of the load does: take fewer --seconds")
    moves.wait(target)
    # All windows are as long: the median of their p99 is that of a typical moment of the move.
    beside = {key: sorted(each[key] for each in windows)[len(windows) // 2] for key in windows[0]}
    return {"alone": alone, "beside": beside, "windows": len(windows), "is_covered": is_covered}


def _cost(cluster: BenchCluster, moves: _Moves) -> dict[str, float]:
    """Measure a move without any load beside it."""
    sent = _recovered(cluster)
    # Kafka has no bound unless one is set. This one is none, and takes the place of our own.
    found = _timed(cluster, moves, "--throttle", str(_NO_THROTTLE))
    moves.verify()
    return _per_gib(found, _recovered(cluster) - sent)


def _kafka_cost(cluster: Cluster, moves: _Moves, held: int) -> dict[str, float]:
    """The same of Kafka, which does not tell what it sends: `held` bytes of values at least."""
    return _per_gib(_timed(cluster, moves), held)


def _timed(cluster: Cluster, moves: _Moves, *options: str) -> dict[str, float]:
    """Move; return the CPU time of all brokers and the time that passes."""
    pids = list(cluster.pids.values())
    began, cpu = time.perf_counter(), sum(map(cpu_seconds, pids))
    moves.wait(moves.begin(*options))
    return {"seconds": time.perf_counter() - began, "cpu_seconds": sum(map(cpu_seconds, pids)) - cpu}


def _per_gib(found: dict[str, float], size: int) -> dict[str, float]:
    gib = size / _GIB
    return found | {
        "bytes": size,
        "cpu_per_gib": found["cpu_seconds"] / gib,
        "seconds_per_gib": found["seconds"] / gib,
    }


def _throttled(cluster: BenchCluster, moves: _Moves) -> dict[str, float]:
    """Measure the rate of a throttled move, from a moment in which it is under way to its end."""
    before = _recovered(cluster)
    target = moves.begin("--throttle", str(_THROTTLE))
    found: dict[str, float] = {}
    eventually("the move has begun", lambda: _recovered(cluster) > before or None)
    began, sent = time.perf_counter(), _recovered(cluster)
    ended, last = began, sent
    while not moves.is_done(target):
        if time.perf_counter() - began > _MOVE_SECONDS:
            raise BenchmarkError("the throttled move does not end")
        now = _recovered(cluster)
        if now > last:
            # The first look that sees all bytes tells when the last was sent; a broker counts for a second.
            ended, last = time.perf_counter(), now
        time.sleep(0.05)
    moves.wait(target)
    moves.verify()
    if ended == began:
        raise BenchmarkError("the throttled move was over at once")
    found["seconds"], found["bytes"] = ended - began, last - sent
    found["bytes_per_second"] = found["bytes"] / found["seconds"]
    return found


def _recovered(cluster: BenchCluster) -> int:
    """Return the bytes that all brokers have sent to followers that were behind."""
    return sum(int(float(value)) for text in cluster.metrics() for value in _RECOVERED.findall(text))
