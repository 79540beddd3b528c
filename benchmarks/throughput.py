"""How much one librdkafka producer and one consumer get through three brokers."""

import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import BenchCluster, BenchmarkError, running_cluster
from benchmarks.load import VALUE_BYTES, CountingProducer, client_facts, read_back
from benchmarks.plan import Plan
from benchmarks.processes import cpu_between, mark_cpu
from benchmarks.report import summarize

_TRIES = 3
_CASES = [(acks, partitions) for partitions in (1, 3) for acks in ("all", "1")]
_MEGABYTE = 1e6


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return MB/s and records/s of writing at each level with 1 and 3 partitions, and of reading it back."""
    with running_cluster(data_dir) as cluster:
        results = [_measure_case(cluster, acks, partitions, quick=plan.is_quick) for acks, partitions in _CASES]
    return {
        "what": "one producer, values of 1 KiB that do not compress, three replicas; MB are 10^6 bytes of values",
        "client": client_facts(),
        "results": results,
    }


def _measure_case(cluster: BenchCluster, acks: str, partitions: int, *, quick: bool) -> dict[str, Any]:
    warm_up, seconds = (1, 3) if quick else (3, 15)
    discarded: list[str] = []
    while len(discarded) < _TRIES:
        with cluster.topic(partitions):
            terms = cluster.terms(partitions)
            with CountingProducer(cluster.bootstrap, acks) as producer:
                time.sleep(warm_up)
                written = _watch(cluster, producer, seconds)
            elections = cluster.terms(partitions) != terms
            if producer.errors or elections:
                discarded.append(f"{len(producer.errors)} errors{', an election' if elections else ''}")
                continue
            cluster.wait_in_sync(partitions)
            read = _read(cluster, partitions, seconds)
            return {"acks": acks, "partitions": partitions, "write": written, "read": read, "discarded": discarded}
    raise BenchmarkError(f"acks={acks}, {partitions} partitions: no run without a disturbance: {discarded}")


def _watch(cluster: BenchCluster, producer: CountingProducer, seconds: int) -> dict[str, Any]:
    pids = cluster.pids
    first, acked, began = mark_cpu(pids), producer.acked, time.perf_counter()
    each_second = []
    for number in range(1, seconds + 1):
        before = producer.acked
        time.sleep(max(0.0, began + number - time.perf_counter()))
        each_second.append((producer.acked - before) * VALUE_BYTES / _MEGABYTE)
    count, elapsed = producer.acked - acked, time.perf_counter() - began
    rates = _rates(count, elapsed)
    # A mean hides stalls: the slowest second shows them.
    slowest = round(min(each_second), 1)
    spread = {"megabytes_in_median_second": summarize(each_second, 1)["median"], "in_slowest_second": slowest}
    return {**rates, **spread, "seconds": round(elapsed, 1), **cpu_between(first, mark_cpu(pids))}


def _read(cluster: BenchCluster, partitions: int, seconds: int) -> dict[str, Any]:
    pids = cluster.pids
    first = mark_cpu(pids)
    found = read_back(cluster.bootstrap, partitions, seconds)
    rates = _rates(found.records, found.seconds) if found.records else {}
    return {**rates, "seconds": round(found.seconds, 1), **cpu_between(first, mark_cpu(pids))}


def _rates(records: int, seconds: float) -> dict[str, float]:
    return {
        "megabytes_per_second": round(records * VALUE_BYTES / seconds / _MEGABYTE, 1),
        "records_per_second": round(records / seconds),
    }
