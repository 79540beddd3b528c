"""Latency at a given rate, from the moment when each record was due: a stall is felt by all that were due in it."""

from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.compare.latencies import latency_options, quantiles
from benchmarks.compare.match import Contender, Measurement, Metrics, play, rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.plan import Plan

# Mode, records/s, linger in ms, what the row is called, bounds of the ratio at p50 and p99.
_CASES: list[tuple[str, int, float, str, float, float]] = [
    ("open", 1000, 0, "1,000/s of 1 KiB without linger, acks=all", 1.0, 0.7),
    ("open", 10_000, 5, "10,000/s of 1 KiB with linger 5 ms, acks=all", 1.0, 0.7),
    ("end_to_end", 1000, 0, "end to end, 1,000/s of 1 KiB without linger, acks=all", 1.0, 0.5),
]


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return p50 and p99 of each case; with `write.caching` beside it."""
    rows, matches = [], {}
    with rivals(data_dir, plan) as found:
        for mode, rate, linger, what, half, tail in _CASES:
            print(f"   -- {what}", flush=True)
            match = play([*found.both(), found.raftka_cached], 1, plan.pairs, _measurement(mode, rate, linger, plan))
            matches[what] = match.to_json()
            for name, bound in (("p50", half), ("p99", tail)):
                rows.append(match_row(match, f"{what}: {name}", "ms", f"{name}_ms", Target("<=", bound)))
            for name in ("p50", "p99"):
                cached = f"{what}, write.caching: {name}"
                rows.append(match_row(match, cached, "ms", f"{name}_ms", ours="raftka, write.caching"))
    return {
        "what": "librdkafka, one partition with three replicas, from the intended send time to the delivery report, "
        "or end to end: to the moment when a consumer of the same process has the record",
        "rows": rows,
        "matches": matches,
    }


def _measurement(mode: str, rate: int, linger: float, plan: Plan) -> Measurement:
    def run(contender: Contender) -> Metrics:
        options = latency_options(contender.cluster, mode, plan, linger, rate=rate)
        return quantiles(native_client.run("producer", options))

    return run
