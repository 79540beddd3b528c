"""A consumer of a group that reads what is being written: MB/s, and end-to-end latency at given rates."""

import os
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchmarkError
from benchmarks.compare.latencies import latency_options
from benchmarks.compare.match import BrokerCpu, Contender, Measurement, Metrics, play, rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.plan import Plan
from benchmarks.report import quantile

_SIZE = 1024
_MEGABYTE = 1e6
# Records/s, the producer's linger in ms, and what p50 and p99 are asked to be.
_RATES: list[tuple[int, float, tuple[Target, ...]]] = [
    (1000, 0.0, ()),
    (1000, 5.0, ()),
    (10_000, 5.0, (Target("<=", 1.0), Target("<=", 1.2))),
]


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return MB/s under a producer's full load, and p50 and p99 from a record's due time to the consumer."""
    rows, matches = [], {}
    with rivals(data_dir, plan) as found:
        for rate, linger, targets in _RATES:
            what = f"tail in a group, {rate:,}/s of 1 KiB with linger {linger:g} ms, acks=all, end to end"
            match = play(found.both(), 1, plan.pairs, _at_rate(rate, linger, plan))
            matches[what] = match.to_json()
            for name, target in zip_longest(("p50", "p99"), targets):
                asked = [target] if target is not None else []
                rows.append(match_row(match, f"{what}: {name}", "ms", f"{name}_ms", *asked))
        # Last: what it has written is on its way to the disk for a while, beside which no latency is measured.
        what = "tail in a group beside a producer's full load, 1 KiB at acks=all"
        match = play(found.both(), 1, plan.pairs, _flooded(plan))
        matches[what] = match.to_json()
        rows.append(match_row(match, what, "MB/s", "megabytes_per_second"))
        rows.append(match_row(match, f"{what}: CPU of the brokers", "s/GB", "cpu_seconds_per_gigabyte"))
    return {
        "what": "one librdkafka consumer that is the only member of its group and commits every second, one partition "
        "with three replicas, the producer a process of its own; end to end: from the moment when a record was due "
        "until the consumer has it; MB are 10^6 bytes of values, from the first record read to the last",
        "rows": rows,
        "matches": matches,
    }


def _tail(
    contender: Contender, consumer: dict[str, object], producer: dict[str, object]
) -> tuple[native_client.ClientRun, native_client.ClientRun]:
    """Run the producer while the consumer reads; return what both tell."""
    where = {"brokers": contender.cluster.bootstrap, "topic": TOPIC}
    written: list[native_client.ClientRun] = []
    # The consumer stands at the end of the partition once it says that it began.
    read = native_client.run(
        "group_consumer",
        # Of a group of its own: what one before has committed is about another topic of that name.
        {**where, "group": f"tail-{os.urandom(4).hex()}", **consumer},
        began=lambda: written.append(native_client.run("producer", {**where, **producer})),
    )
    if not written:
        raise BenchmarkError("the consumer never got its partition")
    return read, written[0]


def _flooded(plan: Plan) -> Measurement:
    def run(contender: Contender) -> Metrics:
        cpu = BrokerCpu(contender.cluster)
        cpu.began()
        read, written = _tail(contender, {}, {"mode": "flood", "size": _SIZE, "seconds": plan.seconds})
        cpu.ended()
        numbers = read.numbers
        return {
            "megabytes_per_second": numbers["bytes"] / max(numbers["seconds"], 1e-9) / _MEGABYTE,
            "cpu_seconds_per_gigabyte": cpu.seconds / max(numbers["bytes"], 1) * 1e9,
            "errors": written.numbers["errors"],
        }

    return run


def _at_rate(rate: int, linger: float, plan: Plan) -> Measurement:
    def run(contender: Contender) -> Metrics:
        options = latency_options(contender.cluster, "stamped", plan, linger, rate=rate)
        read, written = _tail(contender, {"is_stamped": 1, "warm_up": plan.settle_seconds}, options)
        if not read.samples:
            raise BenchmarkError(f"no record was read: {read.numbers}")
        sent = round(rate * (plan.seconds + plan.settle_seconds))
        ordered = sorted(read.samples)
        found = {name: 1000 * quantile(ordered, share) for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99))}
        missing = max(sent - read.numbers["records"], 0)
        return {**found, "records": len(ordered), "errors": written.numbers["errors"], "missing": missing}

    return run
