"""`python -m benchmarks [NAME...]`: measure, print, and keep the numbers as JSON."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import (
    archive,
    audit,
    checkers,
    compaction,
    failover,
    level_stages,
    scrape_cost,
    soak,
    start_time,
    transactions,
)
from benchmarks.cluster import BenchmarkError
from benchmarks.compare import (
    connections,
    consume,
    footprint,
    group_consume,
    groups,
    mixed_levels,
    one_in_flight,
    open_loop,
    produce,
    small_requests,
    spark_source,
)
from benchmarks.living import joint_failover, moves, new_brokers, raft0_learner, rolling_restart
from benchmarks.machine import (
    BusyMachineError,
    UnfitDiskError,
    check_disk,
    foreign_load,
    machine_facts,
    wait_for_quiet,
    wait_for_writeback,
)
from benchmarks.plan import QUICK, Plan
from benchmarks.report import RESULTS, ROOT, source_version, write_result
from benchmarks.table import render
from raftka.dev.errors import DevError
from raftka.kafka.errors import KafkaClientError

_Benchmark = Callable[[Path, Plan], dict[str, Any]]
_BENCHMARKS: dict[str, _Benchmark] = {
    "start_time": start_time.measure,
    "failover": failover.measure,
    "mixed_levels": mixed_levels.measure,
    "level_stages": level_stages.measure,
    "joint_failover": joint_failover.measure,
    "rolling_restart": rolling_restart.measure,
    "new_brokers": new_brokers.measure,
    "raft0_learner": raft0_learner.measure,
    "soak": soak.measure,
    "scrape_cost": scrape_cost.measure,
    "checkers": checkers.measure,
    "audit": audit.measure,
    "archive": archive.measure,
    **compaction.ALONE,
    **transactions.ALONE,
}
# These start Apache Kafka too.
_BESIDE_KAFKA: dict[str, _Benchmark] = {
    "moves": moves.measure,
    "produce": produce.measure,
    "small_requests": small_requests.measure,
    "consume": consume.measure,
    "one_in_flight": one_in_flight.measure,
    "open_loop": open_loop.measure,
    "footprint": footprint.measure,
    "groups": groups.measure,
    "group_consume": group_consume.measure,
    "connections": connections.measure,
    "spark_source": spark_source.measure,
    **compaction.BESIDE_KAFKA,
    **transactions.BESIDE_KAFKA,
}
_ALL = _BENCHMARKS | _BESIDE_KAFKA
# One word for several: each has a result of its own.
_SEVERAL = {"all": list(_ALL), "compaction": compaction.PARTS, "transactions": transactions.PARTS}
_SCRATCH = ROOT / "build" / "benchmarks"


def main() -> int:
    """Run the benchmarks that are named; 0 if each gave a result. Without a name they are listed."""
    arguments = _parse()
    if not arguments.names:
        _list()
        return 0
    # As by Ctrl-C: brokers are stopped and folders removed on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments.data_dir.mkdir(parents=True, exist_ok=True)
    names = [each for name in arguments.names for each in _SEVERAL.get(name, [name])]
    try:
        check_disk(arguments.data_dir)
        for name in names:
            _run(name, arguments.data_dir.resolve(), _plan(arguments), arguments.results, is_busy=arguments.busy)
    except (UnfitDiskError, BusyMachineError, BenchmarkError, DevError, KafkaClientError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("benchmarks: interrupted; nothing of the running one is kept", file=sys.stderr)
        return 130
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure three brokers on this machine.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"benchmarks, or {' or '.join(_SEVERAL)}; none: list them"
    )
    parser.add_argument("--quick", action="store_true", help="short runs, to see that everything works; not kept")
    parser.add_argument("--pairs", type=int, help=f"runs of each contender [default: {Plan().pairs}]")
    parser.add_argument("--seconds", type=float, help=f"measured window of a run [default: {Plan().seconds:g}]")
    parser.add_argument("--warm-up", type=float, help=f"load after a start [default: {Plan().warm_up_seconds:g} s]")
    parser.add_argument(
        "--data-dir", type=Path, default=_SCRATCH, help="a folder on a disk [default: build/benchmarks]"
    )
    parser.add_argument("--busy", action="store_true", help="measure also beside others' load; the result tells it")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where results go [default: benchmarks/results]")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in _ALL and name not in _SEVERAL]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    return arguments


def _plan(arguments: argparse.Namespace) -> Plan:
    given = {"pairs": arguments.pairs, "seconds": arguments.seconds, "warm_up_seconds": arguments.warm_up}
    return replace(
        QUICK if arguments.quick else Plan(), **{key: each for key, each in given.items() if each is not None}
    )


def _list() -> None:
    for title, names in (("three brokers of Raftka:", _BENCHMARKS), ("beside Apache Kafka:", _BESIDE_KAFKA)):
        print(title)
        for name, benchmark in names.items():
            words = (sys.modules[benchmark.__module__].__doc__ or "").splitlines()[0]
            print(f"  {name:<28} {words}")
    print("make bench ARGS='NAME... [--quick] [--pairs N] [--seconds S]'; then `make bench-table`")


def _run(name: str, data_dir: Path, plan: Plan, keep_in: Path, *, is_busy: bool) -> None:
    print(f"== {name}", flush=True)
    left = wait_for_writeback()
    load = foreign_load() if is_busy or plan.is_quick else wait_for_quiet()
    document = {
        "benchmark": name,
        "quick": plan.is_quick,
        "pairs": plan.pairs,
        "seconds": plan.seconds,
        "measured_on": datetime.now(UTC).date().isoformat(),
        "source": source_version(),
        "machine": machine_facts(data_dir),
        "dirty_megabytes_before": left,
        "foreign_cpu_percent_before": load,
    }
    began = time.perf_counter()
    result = document["result"] = _ALL[name](data_dir, plan)
    document["took_seconds"] = round(time.perf_counter() - began)
    # A quick run shows that a benchmark works; its numbers are nobody's to quote.
    path = write_result(_SCRATCH / "quick" if plan.is_quick else keep_in, name, document)
    if "rows" in result:
        print(render([document]))
    else:
        print(json.dumps(result, indent=2))
    print(f"   {document['took_seconds']} s; {path}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
