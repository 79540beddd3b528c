"""How long one record takes when nothing else is under way."""

from pathlib import Path
from typing import Any

from benchmarks.cluster import BenchCluster, BenchmarkError, running_cluster
from benchmarks.load import client_facts, latencies
from benchmarks.plan import Plan
from benchmarks.processes import cpu_between, mark_cpu
from benchmarks.report import quantile

_TRIES = 3
_QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p99.9_ms": 0.999, "max_ms": 1.0}


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return quantiles of the time from produce() to the delivery report, at acks=all and acks=1."""
    warm_up, count = (50, 300) if plan.is_quick else (500, 5000)
    with running_cluster(data_dir) as cluster:
        results = {f"acks={acks}": _measure_level(cluster, acks, warm_up, count) for acks in ("all", "1")}
    return {
        "what": "one producer, one record in flight, 1 KiB, linger 0, one partition with three replicas",
        "client": client_facts(),
        **results,
    }


def _measure_level(cluster: BenchCluster, acks: str, warm_up: int, count: int) -> dict[str, Any]:
    for repeated in range(_TRIES):
        with cluster.topic(1):
            pids, terms = cluster.pids, cluster.terms(1)
            first = mark_cpu(pids)
            samples = latencies(cluster.bootstrap, acks, warm_up, count)
            shares = cpu_between(first, mark_cpu(pids))
            if cluster.terms(1) == terms:
                numbers = {name: round(quantile(samples, share), 3) for name, share in _QUANTILES.items()}
                return {"records": count, **numbers, "runs_repeated": repeated, **shares}
    raise BenchmarkError(f"each of {_TRIES} runs had an election in it")
