"""`python -m benchmarks.versions OTHER`: this checkout beside another one, in turns: A B A B.

OTHER is the root of a checkout whose `make .venv/.installed-tests` has been run. Each measurement starts three brokers
of one of the two, by that one's own `benchmarks`, and is repeated in turns; a row is the median ratio of the pairs.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import failover, soak
from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, running_cluster
from benchmarks.compare import consume, produce
from benchmarks.compare.latencies import latency_options, quantiles
from benchmarks.compare.match import BrokerCpu, Contender, Metrics, play
from benchmarks.compare.verdict import Target, row
from benchmarks.machine import check_disk, machine_facts, wait_for_quiet, wait_for_writeback
from benchmarks.native_client import run as run_client
from benchmarks.plan import Plan
from benchmarks.report import ROOT, source_version, write_result

_RESULTS = ROOT / "benchmarks" / "results" / "versions"
_SCRATCH = ROOT / "build" / "benchmarks"
_REPEATS = 5
_WARM_UP_SECONDS = 5.0
# A soak is longer than a window: retention and lagging followers need their time.
_SOAK_WINDOWS = 4
_SOAK_PARTITIONS = 3
_DIRTY = re.compile(rf'^raftka_partition_dirty_index\{{partition="(\d+)",topic="{TOPIC}"\}} (\S+)$', re.MULTILINE)
# Sizes, partitions and levels.
_PRODUCE = {
    "produce 1 KiB, 1 partition, acks=all": (1024, 1, "all"),
    "produce 1 KiB, 1 partition, acks=1": (1024, 1, "1"),
    "produce 1 KiB, 16 partitions, acks=all": (1024, 16, "all"),
    "produce 10 KiB, 1 partition, acks=1": (10_240, 1, "1"),
}
# One read takes a second, and two reads of the same brokers differ by a third: a run is several of them.
_READS = 5
_CONSUME = f"consume 1 GB of 1 KiB records that were just written, 1 partition, {_READS} times"
# What neither of these may lose by a new feature that is not used.
_JUDGED = {"produce 1 KiB, 1 partition, acks=all", _CONSUME}
_TARGETS = {"megabytes_per_second": Target(">=", 0.95), "cpu_seconds_per_gigabyte": Target("<=", 1.03)}
# What is kept of each run, and its unit.
_KEPT = {
    "megabytes_per_second": "MB/s",
    "copies": "of 3",
    "replicated_megabytes_per_second": "MB/s",
    "cpu_seconds_per_gigabyte": "s/GB",
    "p50_ms": "ms",
    "p99_ms": "ms",
    "elected_ms": "ms",
    "acknowledged_ms": "ms",
    "elections": "",
    "loop_lag_ms": "ms",
}


def _produce(size: int, partitions: int, acks: str) -> Callable[[Path, Plan], Metrics]:
    def run(data_dir: Path, plan: Plan) -> Metrics:
        with running_cluster(data_dir) as cluster:
            measurement = produce._measurement(size, acks, plan)
            return play([Contender("it", cluster)], partitions, 1, measurement).runs["it"][0]

    return run


def _consume(data_dir: Path, plan: Plan) -> Metrics:
    with running_cluster(data_dir) as cluster:
        first = consume._measurement(consume._CASES[0], plan)
        where = {"brokers": cluster.bootstrap, "topic": TOPIC, "partitions": 1}

        def measure(contender: Contender) -> Metrics:
            # It writes, and reads what the brokers have just been given: that is the warm-up.
            metrics = first(contender)
            cpus = [BrokerCpu(cluster) for _ in range(_READS)]
            reads = [run_client("consumer", where, cpu.began, cpu.ended).numbers for cpu in cpus]
            size = sum(read["bytes"] for read in reads)
            return {
                **metrics,
                "megabytes_per_second": size / sum(read["seconds"] for read in reads) / 1e6,
                "cpu_seconds_per_gigabyte": sum(cpu.seconds for cpu in cpus) / size * 1e9,
                "missing": metrics["missing"] + sum(read["wanted"] - read["records"] for read in reads),
            }

        return play([Contender("it", cluster)], 1, 1, measure).runs["it"][0]


def _one_in_flight(acks: str) -> Callable[[Path, Plan], Metrics]:
    def run(data_dir: Path, plan: Plan) -> Metrics:
        with running_cluster(data_dir) as cluster:

            def measure(contender: Contender) -> Metrics:
                return quantiles(run_client("producer", latency_options(contender.cluster, "single", plan, acks=acks)))

            return play([Contender("it", cluster)], 1, 1, measure).runs["it"][0]

    return run


def _failover(data_dir: Path, _: Plan) -> Metrics:
    found = failover.measure_fault("SIGKILL", data_dir, _REPEATS)
    return {name: found[name]["median"] for name in ("elected_ms", "acknowledged_ms")}


def _soak(data_dir: Path, plan: Plan) -> Metrics:
    """Return what one producer gets, and what all replicas take: a slow follower that is left behind costs nothing."""
    options = {"mode": "flood", "topic": TOPIC, "seconds": _SOAK_WINDOWS * plan.seconds}
    with running_cluster(data_dir) as cluster, cluster.topic(_SOAK_PARTITIONS, soak._RETENTION):
        elections = soak._elections(cluster)
        found = run_client("producer", {**options, "brokers": cluster.bootstrap}).numbers
        megabytes_per_second = found["records"] * found["size"] / found["seconds"] / 1e6
        copies = _copies(cluster)
        return {
            "megabytes_per_second": megabytes_per_second,
            "copies": copies,
            "replicated_megabytes_per_second": copies * megabytes_per_second,
            "elections": soak._elections(cluster) - elections,
            "loop_lag_ms": 1000 * max(soak._reported_lags(cluster), default=0.0),
        }


def _copies(cluster: BenchCluster) -> float:
    """Return how many replicas hold an entry when the load ends: at most their number."""
    reached: dict[str, list[float]] = defaultdict(list)
    for text in cluster.replica_metrics():
        for partition, last_index in _DIRTY.findall(text):
            reached[partition].append(float(last_index))
    return sum(map(sum, reached.values())) / sum(map(max, reached.values()))


_CASES: dict[str, Callable[[Path, Plan], Metrics]] = {
    **{name: _produce(*of_case) for name, of_case in _PRODUCE.items()},
    _CONSUME: _consume,
    "1 KiB, one in flight, acks=all": _one_in_flight("all"),
    "1 KiB, one in flight, acks=1": _one_in_flight("1"),
    f"failover after SIGKILL, median of {_REPEATS}": _failover,
    "full load with retention.bytes=1 GiB": _soak,
}


def main() -> int:
    """Measure both in turns, or one case of one of them (`--only`, which is what the other's Python is asked for)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions")
    parser.add_argument("other", type=Path, help="the root of the other checkout")
    parser.add_argument("--pairs", type=int, default=Plan().pairs)
    parser.add_argument("--seconds", type=float, default=Plan().seconds)
    parser.add_argument("--cases", default="", help="a part of the names of the cases that are wanted")
    parser.add_argument("--name", default="versions", help="of the result file [default: %(default)s]")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    # Nothing here is compiled while it runs: a short warm-up fills connections and buffers.
    plan = Plan(pairs=1, seconds=arguments.seconds, warm_up_seconds=_WARM_UP_SECONDS)
    try:
        if arguments.only is not None:
            _SCRATCH.mkdir(parents=True, exist_ok=True)
            print(json.dumps(_CASES[arguments.only](arguments.other, plan)))
            return 0
        _compare(arguments.other.resolve(), arguments)
    except BenchmarkError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return 0


def _compare(other: Path, arguments: argparse.Namespace) -> None:
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    check_disk(_SCRATCH)
    runs: dict[str, dict[str, list[Metrics]]] = defaultdict(lambda: defaultdict(list))
    cases = [name for name in _CASES if arguments.cases in name]
    for number in range(arguments.pairs):
        for case in cases:
            # Whoever comes first has the colder disk: they take turns at that, too.
            for root in (other, ROOT) if number % 2 == 0 else (ROOT, other):
                wait_for_writeback()
                wait_for_quiet()
                metrics = _run_in(root, case, arguments.seconds)
                label = "ours" if root == ROOT else "theirs"
                runs[case][label].append({name: each for name, each in metrics.items() if name in _KEPT})
                print(f"{case}: {label}: {runs[case][label][-1]}", flush=True)
    document = {
        "benchmark": arguments.name,
        "pairs": arguments.pairs,
        "seconds": arguments.seconds,
        "measured_on": datetime.now(UTC).date().isoformat(),
        "source": source_version(),
        "other": _version_of(other),
        "machine": machine_facts(_SCRATCH),
        "rows": _rows(runs),
        "runs": runs,
    }
    for each in document["rows"]:
        verdict = {True: ", met", False: ", missed", None: ""}[each["met"]]
        ratio = f"{each.get('ratio', '-')}x{verdict}"
        print(f"{each['what']}: {each['raftka']} beside {each['peer']} {each['unit']}: {ratio}")
    print(write_result(_RESULTS, arguments.name, document))


def _rows(runs: dict[str, dict[str, list[Metrics]]]) -> list[dict[str, Any]]:
    return [
        row(f"{case}: {name}", unit, *_samples(of_case, name), *_targets(case, name), peer="other")
        for case, of_case in runs.items()
        for name, unit in _KEPT.items()
        if name in of_case["ours"][0]
    ]


def _targets(case: str, name: str) -> list[Target]:
    return [_TARGETS[name]] if case in _JUDGED and name in _TARGETS else []


def _samples(runs: dict[str, list[Metrics]], name: str) -> Sequence[list[float]]:
    return [[run[name] for run in runs[label]] for label in ("ours", "theirs")]


def _run_in(root: Path, case: str, seconds: float) -> Metrics:
    """Run one case by the Python, the brokers and the `benchmarks` of a checkout; this file is run there as it is."""
    words = [str(root / "build" / "benchmarks"), "--only", case, "--seconds", str(seconds)]
    program = f"import sys; sys.argv[1:] = {words!r}; exec(compile(open({__file__!r}).read(), 'versions', 'exec'))"
    command = [str(root / ".venv" / "bin" / "python"), "-c", program]
    found = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode != 0:
        raise BenchmarkError(f"{case}: {root} failed")
    return dict(json.loads(found.stdout.splitlines()[-1]))


def _version_of(root: Path) -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
