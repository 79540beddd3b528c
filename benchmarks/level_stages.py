"""Where calls at acks=1 and acks=all spend their time in the leader: alone, on one partition, on neighbouring ones.

The neighbours share brokers, disk and processors but neither log nor order: what is slower there than alone is the
price of the machine, and only what is slower on one partition than there is the price of sharing a partition.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, eventually
from benchmarks.compare.latencies import latency_options, quantiles
from benchmarks.machine import wait_for_rest
from benchmarks.plan import Plan
from benchmarks.profile_broker import observed_cluster
from benchmarks.profiled_process import BEGIN, END
from benchmarks.report import quantile
from benchmarks.timed_process import MOMENTS
from raftka.kafka import client as kafka_client

_NEIGHBOUR = "bench-neighbour"
_TRIES = 12
_REPLICAS = 3
# Records per second by level and topic.
_CASES: dict[str, dict[tuple[str, str], int]] = {
    "acks=1 alone": {("1", TOPIC): 1000},
    "acks=all alone": {("all", TOPIC): 1000},
    "both, one partition": {("1", TOPIC): 500, ("all", TOPIC): 500},
    "both, a partition each": {("1", TOPIC): 500, ("all", _NEIGHBOUR): 500},
}
_LEVELS = {"LEADER_ACK": "acks=1", "QUORUM_ACK": "acks=all"}
_SHARES = {"p50": 0.5, "p99": 0.99}


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return milliseconds between the moments of `timed_process`, and those of the client, by case and level."""
    found: dict[str, list[dict[str, Any]]] = {case: [] for case in _CASES}
    with observed_cluster(data_dir, "benchmarks.timed_process") as (cluster, stats):
        wait_for_rest()
        for _ in range(plan.pairs):
            for case, load in _CASES.items():
                with _topics(cluster, {topic for _, topic in load}) as leader:
                    found[case].append(_run(cluster, leader, stats[leader], load, plan))
                print(f"   {case}: {json.dumps(found[case][-1])}", flush=True)
    return {
        "what": "librdkafka, open loop, linger 0, 1 KiB, three replicas; ms at p50 and p99, medians of the runs; the "
        "client's own figure begins when the record is due, the leader's when its batcher has the call",
        "cases": {case: _medians(runs) for case, runs in found.items()},
        "runs": found,
    }


@contextmanager
def _topics(cluster: BenchCluster, names: set[str]) -> Iterator[int]:
    """Hold TOPIC, and the neighbour if it is asked for, with one leader; yield its node id."""
    with cluster.topic(1):
        leader = _leader(cluster, TOPIC)
        try:
            if _NEIGHBOUR in names:
                _place_neighbour(cluster, leader)
            yield leader
        finally:
            if _NEIGHBOUR in names:
                kafka_client.delete_topic(cluster.bootstrap, _NEIGHBOUR)


def _place_neighbour(cluster: BenchCluster, leader: int) -> None:
    for _ in range(_TRIES):
        kafka_client.create_topic(cluster.bootstrap, _NEIGHBOUR, 1, _REPLICAS)
        if _leader(cluster, _NEIGHBOUR) == leader:
            return
        kafka_client.delete_topic(cluster.bootstrap, _NEIGHBOUR)
        eventually("the topic is gone", lambda: cluster.partition(0, _NEIGHBOUR) is None or None)
    raise BenchmarkError(f"{_TRIES} topics were made, none with node {leader} as its leader")


def _leader(cluster: BenchCluster, topic: str) -> int:
    def found() -> int | None:
        leader = (cluster.partition(0, topic) or {"leader": -1})["leader"]
        return int(leader) if leader != -1 else None

    return eventually(f"a leader of {topic}", found)


def _run(
    cluster: BenchCluster, leader: int, stats: Path, load: dict[tuple[str, str], int], plan: Plan
) -> dict[str, Any]:
    stats.unlink(missing_ok=True)
    pid = cluster.pids[leader]
    with ExitStack() as held:
        clients = {}
        for (acks, topic), rate in load.items():
            options = {**latency_options(cluster, "open", plan, rate=rate), "topic": topic, "acks": acks}
            clients[f"acks={acks}"] = held.enter_context(native_client.started("producer", options))
        first, *others = clients.values()
        runs = [
            first.finish(lambda: os.kill(pid, BEGIN), lambda: os.kill(pid, END)),
            *(client.finish() for client in others),
        ]
    told = {level: quantiles(run) for level, run in zip(clients, runs, strict=True)}
    calls = eventually("the moments", lambda: json.loads(stats.read_text()) if stats.exists() else None)
    stages = _stages(calls)
    return {
        level: {
            "client": {share: round(told[level][f"{share}_ms"], 3) for share in _SHARES},
            **stages[level],
        }
        for level in clients
    }


def _stages(calls: Sequence[tuple[str, list[float]]]) -> dict[str, dict[str, Any]]:
    """Return quantiles of each step, and of all of them, by level."""
    steps: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for level, moments in calls:
        of_level = steps[_LEVELS[level]]
        of_level["leader"].append(moments[-1] - moments[0])
        for name, begin, end in zip(MOMENTS[1:], moments[:-1], moments[1:], strict=True):
            of_level[name].append(end - begin)
    return {
        level: {
            name: {share: round(1000 * quantile(samples, at), 3) for share, at in _SHARES.items()}
            for name, samples in each.items()
        }
        for level, each in steps.items()
    }


def _medians(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        level: {
            name: {share: quantile([run[level][name][share] for run in runs], 0.5) for share in _SHARES}
            for name in runs[0][level]
        }
        for level in runs[0]
    }
