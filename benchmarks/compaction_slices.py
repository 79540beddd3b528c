"""The longest slice on a broker's event loop while passes of log compaction run, and which callback it was.

Three brokers under `sliced_process`, 1,000 records/s of 1 KiB at acks=all, in turns with a topic that is not compacted
and with one over which passes run all the time. The length of a slice is the CPU time of the loop's thread.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import BenchCluster, BenchmarkError, eventually
from benchmarks.compare.compacted import COMPACT, DELETE, IMPATIENT, KEYS, SMALL_SEGMENTS
from benchmarks.compare.compacted_latency import RATE, PassCount, fill
from benchmarks.compare.latencies import latency_options
from benchmarks.compare.verdict import Target, row
from benchmarks.plan import Plan
from benchmarks.profile_broker import observed_cluster
from benchmarks.profiled_process import BEGIN, END
from benchmarks.sliced_process import Slice, Slices

_LIMIT = Target("<=", 1.0, "value")
# Of all that a run has kept; the first one is the row.
_SHOWN = 5


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return the longest slice of all runs with and without passes, and the longest of the compactor's own tasks.

    Raises:
        BenchmarkError: No pass has ended within a run that is about them.
    """
    runs: dict[str, list[dict[str, Any]]] = {"while passes run": [], "without passes": []}
    configs = {"while passes run": {**SMALL_SEGMENTS, **COMPACT}, "without passes": {**SMALL_SEGMENTS, **DELETE}}
    with observed_cluster(data_dir, "benchmarks.sliced_process", IMPATIENT) as (cluster, stats):
        for _ in range(plan.pairs):
            for words in reversed(runs):
                runs[words].append(_run(cluster, stats, configs[words], plan))
                print(f"   {words}: {runs[words][-1]['longest'][0]}", flush=True)
    passes_run, without = (_longest(found, "longest") for found in runs.values())
    own = _longest(runs["while passes run"], "of_compaction")
    what = (
        f"{RATE:,}/s of 1 KiB with keys, acks=all, while passes run: CPU time of the longest slice on a broker's loop"
    )
    longest = row(what, "ms", [passes_run["cpu_ms"]], [without["cpu_ms"]], _LIMIT, peer="without passes")
    return {
        "what": "the longest of all slices of three brokers in all runs; a slice is one callback of the event loop, "
        "and its length the CPU time of the loop's thread",
        "rows": [longest, row(f"{what}, of the compactor's own tasks", "ms", [own["cpu_ms"]], [], _LIMIT)],
        "longest": {"while passes run": passes_run, "without passes": without, "of the compactor's tasks": own},
        "runs": runs,
    }


def _run(cluster: BenchCluster, stats: Mapping[int, Path], config: Mapping[str, str], plan: Plan) -> dict[str, Any]:
    """Return the longest slices of one run, each with its broker, and how many passes have ended in it."""
    is_compacted = config["cleanup.policy"] == COMPACT["cleanup.policy"]
    counted = PassCount(cluster)
    pids = cluster.pids

    def signal_all(number: int) -> None:
        for pid in pids.values():
            os.kill(pid, number)

    def began() -> None:
        # First what has callbacks of its own: an answer with all metrics is not part of the load.
        counted.began()
        signal_all(BEGIN)

    def ended() -> None:
        signal_all(END)
        counted.ended()

    with cluster.topic(1, config):
        fill(cluster, is_compacted=is_compacted)
        leader = (cluster.partition() or {}).get("leader")
        for path in stats.values():
            path.unlink(missing_ok=True)
        native_client.run("producer", latency_options(cluster, "open", plan, rate=RATE, keys=KEYS), began, ended)
        eventually("the slices of all brokers", lambda: all(path.exists() for path in stats.values()) or None)
    if is_compacted and not counted.passes:
        raise BenchmarkError("no pass has ended in the window")
    found: dict[int, Slices] = {node: json.loads(path.read_text()) for node, path in stats.items()}
    merged = {
        "longest": _merged({node: each["longest"] for node, each in found.items()}),
        "of_compaction": _merged({node: each["of_compaction"] for node, each in found.items()}),
    }
    return {
        "passes": counted.passes,
        "slices": sum(each["count"] for each in found.values()),
        "leader": leader,
        **merged,
    }


def _merged(slices: Mapping[int, list[Slice]]) -> list[dict[str, Any]]:
    """Return the longest of all brokers, the longest first."""
    found = [{"broker": node, **each} for node, kept in slices.items() for each in kept]
    return sorted(found, key=lambda each: -float(each["cpu_ms"]))[:_SHOWN]  # type: ignore[arg-type]


def _longest(runs: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the longest slice of all runs.

    Raises:
        BenchmarkError: No run has one.
    """
    found = [each for run in runs for each in run[kind]]
    if not found:
        raise BenchmarkError("no slice of the compactor's tasks was seen")
    return max(found, key=lambda each: float(each["cpu_ms"]))
