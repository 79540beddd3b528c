"""Quantiles of what a native producer tells about single records."""

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchmarkError, Cluster
from benchmarks.compare.match import Metrics
from benchmarks.plan import Plan
from benchmarks.report import quantile

_QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p99.9_ms": 0.999, "max_ms": 1.0}


def latency_options(
    cluster: Cluster, mode: str, plan: Plan, linger_ms: float = 0, **options: object
) -> dict[str, object]:
    """Return the arguments of a native producer of 1 KiB records to partition 0."""
    return {
        "mode": mode,
        "brokers": cluster.bootstrap,
        "topic": TOPIC,
        "size": 1024,
        "seconds": plan.seconds,
        "warm_up": plan.settle_seconds,
        "conf": {"linger.ms": linger_ms},
        **options,
    }


def quantiles(run: native_client.ClientRun) -> Metrics:
    """Return milliseconds at some quantiles; a record without an answer is an error.

    Raises:
        BenchmarkError: No record had an answer.
    """
    if not run.samples:
        raise BenchmarkError(f"no record was answered: {run.numbers}")
    # Sorted once; `quantile` sorts what is sorted already in no time.
    ordered = sorted(run.samples)
    found = {name: 1000 * quantile(ordered, share) for name, share in _QUANTILES.items()}
    return {**found, "records": len(ordered), "errors": run.numbers["errors"] + run.unanswered}
