"""What one producer gets through to a compacted topic, beside the same records to a topic that is not compacted."""

from pathlib import Path
from typing import Any

from benchmarks.compare.compacted import KAFKA, KEYS, RAFTKA, contenders, passes, ratio_row
from benchmarks.compare.match import Contender, Measurement, Metrics, play, rivals
from benchmarks.compare.produce import flood
from benchmarks.compare.verdict import Target, match_row
from benchmarks.plan import Plan

# Bytes of a value, what the rows call it, and what the ratio is to be.
_CASES = [(1024, "1 KiB", (Target(">=", 0.8, "value"),)), (100, "100 B", ())]


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return MB/s to both kinds of topic, the ratio of the two beside Kafka's, and what the brokers pay."""
    rows: list[dict[str, Any]] = []
    matches = {}
    with rivals(data_dir, plan) as found:
        for size, name, targets in _CASES:
            what = f"produce {name} with keys, 1 partition, acks=all"
            print(f"   -- {what}", flush=True)
            match = play(contenders(found), 1, plan.pairs, _measurement(size, plan))
            matches[what] = match.to_json()
            speed, cpu = "megabytes_per_second", "cpu_seconds_per_gigabyte"
            rows.append(ratio_row(match, f"{what}: MB/s of a compacted topic to those of another", speed, *targets))
            rows.append(ratio_row(match, f"{what}: CPU of the brokers, compacted to not", cpu))
            for label, words in ((0, "compacted"), (1, "not compacted")):
                pair = {"ours": RAFTKA[label], "theirs": KAFKA[label]}
                rows.append(match_row(match, f"{what}, {words}", "MB/s", speed, **pair))
    return {
        "what": f"one librdkafka producer with its defaults, incompressible values, keys of 16 bytes, {KEYS:,} of them "
        "at random, three replicas; topics and brokers with their defaults; MB are 10^6 bytes of values",
        "rows": rows,
        "matches": matches,
    }


def _measurement(size: int, plan: Plan) -> Measurement:
    def run(contender: Contender) -> Metrics:
        before = passes(contender.cluster)
        found = flood(contender.cluster, size, plan, keys=KEYS)
        return {**found, "passes": passes(contender.cluster) - before}

    return run
