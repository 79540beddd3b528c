"""What one librdkafka producer gets through, and what the brokers pay for a gigabyte of it."""

from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, Cluster
from benchmarks.compare.match import BrokerCpu, Contender, Measurement, Metrics, Rivals, play, rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.machine import durable_bandwidth, wait_for_rest
from benchmarks.plan import Plan

_CASES = [(1024, 1), (1024, 16), (100, 1), (10_240, 1)]
_NAMES = {100: "100 B", 1024: "1 KiB", 10_240: "10 KiB"}
_MEGABYTE, _GIGABYTE = 1e6, 1e9


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return MB/s and brokers' CPU seconds per GB for each size, number of partitions and level."""
    wait_for_rest()
    bandwidth = durable_bandwidth(data_dir)
    wait_for_rest()
    rows: list[dict[str, Any]] = []
    matches = {}
    with rivals(data_dir, plan) as found:
        for size, partitions in _CASES:
            for acks in ("all", "1"):
                what = f"produce {_NAMES[size]}, {_plural(partitions)}, acks={acks}"
                print(f"   -- {what}", flush=True)
                match = play(_contenders(found, acks), partitions, plan.pairs, _measurement(size, acks, plan))
                matches[what] = match.to_json()
                rows.append(match_row(match, what, "MB/s", "megabytes_per_second", Target(">=", 1.0)))
                if acks == "all":
                    cached = f"{what}, write.caching"
                    rows.append(match_row(match, cached, "MB/s", "megabytes_per_second", ours="raftka, write.caching"))
                cpu = Target("<=", 1.0)
                rows.append(match_row(match, f"{what}: CPU of the brokers", "s/GB", "cpu_seconds_per_gigabyte", cpu))
    return {
        "what": "one librdkafka producer with its defaults, incompressible values, three replicas; MB are 10^6 bytes "
        "of values; CPU of the brokers is the sum of three",
        "disk_durable_megabytes_per_second": bandwidth,
        "disk_durable_third": round(bandwidth / 3, 1),
        "rows": rows,
        "matches": matches,
    }


def _contenders(found: Rivals, acks: str) -> list[Contender]:
    # At acks=1 nothing waits for a disk with or without write caching.
    return [*found.both(), found.raftka_cached] if acks == "all" else found.both()


def _measurement(size: int, acks: str, plan: Plan) -> Measurement:
    return lambda contender: flood(contender.cluster, size, plan, acks=acks)


def flood(cluster: Cluster, size: int, plan: Plan, **options: object) -> Metrics:
    """Let one producer write as fast as it can; return MB/s, records/s, and CPU seconds per GB of values.

    Args:
        cluster: It has the topic.
        size: Bytes of a value.
        plan: How long.
        options: More of the producer, such as `acks` and `keys`.
    """
    cpu = BrokerCpu(cluster)
    asked = {
        "mode": "flood",
        "brokers": cluster.bootstrap,
        "topic": TOPIC,
        "size": size,
        "seconds": plan.seconds,
        "warm_up": plan.settle_seconds,
        **options,
    }
    produced = native_client.run("producer", asked, cpu.began, cpu.ended).numbers
    total, seconds = produced["records"] * size, produced["seconds"]
    return {
        "megabytes_per_second": total / seconds / _MEGABYTE,
        "records_per_second": produced["records"] / seconds,
        "slowest_second_megabytes": min(produced["records_each_second"], default=0) * size / _MEGABYTE,
        "cpu_seconds_per_gigabyte": cpu.seconds / max(total, 1) * _GIGABYTE,
        "client_cpu_seconds_per_gigabyte": produced["client_cpu_seconds"] / max(total, 1) * _GIGABYTE,
        "errors": produced["errors"],
    }


def _plural(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"
