"""One record in flight at acks=all: durable beside Kafka that fsyncs too, and cached beside Kafka's default."""

from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC
from benchmarks.compare.fsyncs import fsyncs_per_record
from benchmarks.compare.latencies import latency_options, quantiles
from benchmarks.compare.match import Contender, Metrics, play, rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.plan import Plan

_FLUSH_EACH = {"flush.messages": "1"}
_KAFKA_DURABLE = "kafka, flush.messages=1"
_PEERS = {"raftka": (_KAFKA_DURABLE, 0.6), "raftka, write.caching": ("kafka", 1.0)}


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return p50 and p99 of each contender, and how many fsyncs its brokers make for a record."""
    with rivals(data_dir, plan) as found:
        raftka, kafka = found.both()
        contenders = [raftka, Contender(_KAFKA_DURABLE, found.kafka, _FLUSH_EACH), found.raftka_cached, kafka]

        def run(contender: Contender) -> Metrics:
            return quantiles(native_client.run("producer", latency_options(contender.cluster, "single", plan)))

        match = play(contenders, 1, plan.pairs, run)
        fsyncs = {each.label: _count_fsyncs(each) for each in contenders if each.label not in match.refused}
    rows = []
    for ours, (theirs, bound) in _PEERS.items():
        for name in ("p50", "p99"):
            what = f"1 KiB, one in flight, acks=all: {name} of {ours}"
            rows.append(match_row(match, what, "ms", f"{name}_ms", Target("<=", bound), ours=ours, theirs=theirs))
    return {
        "what": "librdkafka, linger 0, one record in flight, one partition with three replicas",
        "fsyncs_per_record": fsyncs,
        "rows": rows,
        "matches": {"one in flight": match.to_json()},
    }


def _count_fsyncs(contender: Contender) -> float | str:
    with contender.cluster.topic(1, contender.config):
        return fsyncs_per_record(contender.cluster, TOPIC)
