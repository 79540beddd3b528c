"""Consume, transform, produce: records/s with a commit of both each 100 ms, by librdkafka."""

import os
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, Cluster
from benchmarks.compare.match import BrokerCpu, Contender, Metrics, play
from benchmarks.compare.transactional import (
    KAFKA_DURABLE,
    OFFSETS_TOPIC,
    contenders,
    flushed,
    transactional_rivals,
)
from benchmarks.compare.verdict import Target, match_row
from benchmarks.machine import wait_for_rest
from benchmarks.plan import Plan
from benchmarks.report import quantile

_SIZE = 1024
_INTERVAL_SECONDS = 0.1
# The input is of partition 0, the output goes to partition 1.
_PARTITIONS = 2
# So that a broker which transforms as many a second is measured as long as the plan says.
_RECORDS_PER_SECOND = 20_000
_WARM_UP_RECORDS = 20_000
_SECONDS_MAX = 600


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return records/s, the brokers' CPU time, and how long commits take."""

    def run(contender: Contender) -> Metrics:
        with flushed(contender, OFFSETS_TOPIC):
            return _transform(contender.cluster, round(_RECORDS_PER_SECOND * plan.seconds))

    with transactional_rivals(data_dir, plan) as found:
        for each in found.both():
            # Also makes the topic of offsets.
            with each.cluster.topic(_PARTITIONS):
                _transform(each.cluster, _WARM_UP_RECORDS)
        match = play(contenders(found), _PARTITIONS, plan.pairs, run)
    what = f"consume-transform-produce of 1 KiB, a commit each {1000 * _INTERVAL_SECONDS:g} ms"
    rows = []
    for theirs, words, targets in (
        (KAFKA_DURABLE, "", [Target(">=", 0.8)]),
        ("kafka", ", beside Kafka as shipped", []),
    ):
        rows.append(match_row(match, f"{what}{words}", "records/s", "records_per_second", *targets, theirs=theirs))
        cpu = f"{what}{words}: CPU of the brokers"
        rows.append(match_row(match, cpu, "s/GB", "cpu_seconds_per_gigabyte", theirs=theirs))
    rows.append(match_row(match, f"{what}: a commit, p50", "ms", "commit_p50_ms", theirs=KAFKA_DURABLE))
    return {
        "what": "one librdkafka client with its defaults, which speaks the older protocol (TV1): it reads one "
        "partition and writes each record to another one, with its offsets in the transaction; three replicas",
        "rows": rows,
        "matches": {what: match.to_json()},
    }


def _transform(cluster: Cluster, records: int) -> Metrics:
    where = {"brokers": cluster.bootstrap, "topic": TOPIC}
    flood = {"mode": "flood", "size": _SIZE, "count": records, "partition": 0, "seconds": _SECONDS_MAX}
    written = native_client.run("producer", {**where, **flood}).numbers
    cluster.wait_in_sync(_PARTITIONS)
    wait_for_rest()
    run = os.urandom(4).hex()
    # Of a group and an id that nobody has used before.
    options = {**where, "group": f"transform-{run}", "id": f"transform-{run}", "count": records}
    cpu = BrokerCpu(cluster)
    found = native_client.run(
        "transformer", {**options, "interval": _INTERVAL_SECONDS, "seconds": _SECONDS_MAX}, cpu.began, cpu.ended
    )
    numbers = found.numbers
    return {
        "records_per_second": numbers["records"] / numbers["seconds"],
        "cpu_seconds_per_gigabyte": cpu.seconds / max(numbers["records"] * _SIZE, 1) * 1e9,
        "commit_p50_ms": 1000 * quantile(found.samples, 0.5),
        "commit_p99_ms": 1000 * quantile(found.samples, 0.99),
        "transactions": numbers["transactions"],
        "errors": written["errors"] + numbers["errors"],
        "missing": records - numbers["records"],
    }
