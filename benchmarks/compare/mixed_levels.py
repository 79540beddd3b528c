"""Writers at acks=1 and acks=all on one partition, beside each of them alone: nobody may wait for the other's level."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import running_cluster
from benchmarks.compare.latencies import latency_options, quantiles
from benchmarks.compare.match import Contender, Measurement, Metrics, play
from benchmarks.compare.verdict import Target, match_row
from benchmarks.machine import wait_for_rest
from benchmarks.plan import Plan

_LEVELS = ("all", "1")
_RATE = 1000


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return p99 of each level in a mix of 500/s each, beside 1,000/s of that level alone."""
    rows, matches = [], {}
    with running_cluster(data_dir) as cluster:
        wait_for_rest()
        contenders = [Contender("mixed", cluster), *(Contender(f"acks={level} alone", cluster) for level in _LEVELS)]
        match = play(contenders, 1, plan.pairs, _measurement(plan))
        matches["mixed levels"] = match.to_json()
        for level in _LEVELS:
            # Each contender's run keeps the metrics of the levels it has.
            what = f"500/s of acks=all beside 500/s of acks=1, one partition: p99 of acks={level} beside 1,000/s of it"
            sides = {"ours": "mixed", "theirs": f"acks={level} alone"}
            rows.append(match_row(match, what, "ms", f"p99_ms at acks={level}", Target("<=", 1.5), **sides))
    return {
        "what": "librdkafka, open loop, linger 0, 1 KiB, one partition with three replicas; Raftka beside itself",
        "rows": rows,
        "matches": matches,
    }


def _measurement(plan: Plan) -> Measurement:
    def run(contender: Contender) -> Metrics:
        levels = _LEVELS if contender.label == "mixed" else [each for each in _LEVELS if f"={each} " in contender.label]
        options = latency_options(contender.cluster, "open", plan, rate=_RATE // len(levels))
        # Both at once, each in a process of its own; both windows begin within milliseconds.
        with ExitStack() as held:
            clients = {
                level: held.enter_context(native_client.started("producer", {**options, "acks": level}))
                for level in levels
            }
            found = {level: quantiles(client.finish()) for level, client in clients.items()}
        metrics = {f"{name} at acks={level}": value for level, each in found.items() for name, value in each.items()}
        return metrics | {"errors": sum(each["errors"] for each in found.values())}

    return run
