"""`python -m benchmarks [NAME...] [--quick] [--data-dir DIR]`: measure, print, and keep the numbers as JSON."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import failover, idle, latency, start_time, throughput
from benchmarks.cluster import BenchmarkError
from benchmarks.machine import UnfitDiskError, check_disk, foreign_load, machine_facts, wait_for_writeback
from benchmarks.report import RESULTS, ROOT, source_version, write_result
from raftka.dev.errors import DevError
from raftka.kafka_client import KafkaClientError

_BENCHMARKS: dict[str, Callable[..., dict[str, Any]]] = {
    "start_time": start_time.measure,
    "idle": idle.measure,
    "latency": latency.measure,
    "failover": failover.measure,
    "throughput": throughput.measure,
}
_SCRATCH = ROOT / "build" / "benchmarks"


def main() -> int:
    """Run the benchmarks that are named, or all; 0 if each gave a result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure three brokers on this machine.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(_BENCHMARKS)}; none: all")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that everything works; not kept")
    parser.add_argument(
        "--data-dir", type=Path, default=_SCRATCH, help="a folder on a disk [default: build/benchmarks]"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in _BENCHMARKS]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    # As by Ctrl-C: brokers are stopped and folders removed on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments.data_dir.mkdir(parents=True, exist_ok=True)
    try:
        check_disk(arguments.data_dir)
        for name in arguments.names or _BENCHMARKS:
            _run(name, arguments.data_dir, quick=arguments.quick)
    except (UnfitDiskError, BenchmarkError, DevError, KafkaClientError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return 0


def _run(name: str, data_dir: Path, *, quick: bool) -> None:
    print(f"== {name}", flush=True)
    left = wait_for_writeback()
    document = {
        "benchmark": name,
        "quick": quick,
        "measured_on": datetime.now(UTC).date().isoformat(),
        "source": source_version(),
        "machine": machine_facts(data_dir),
        "dirty_megabytes_before": left,
        "foreign_cpu_percent_before": foreign_load(),
    }
    began = time.perf_counter()
    document["result"] = _BENCHMARKS[name](data_dir, quick=quick)
    document["took_seconds"] = round(time.perf_counter() - began)
    # A quick run shows that a benchmark works; its numbers are nobody's to quote.
    path = write_result(_SCRATCH / "quick" if quick else RESULTS, name, document)
    print(json.dumps(document["result"], indent=2))
    print(f"   {document['took_seconds']} s; {path.relative_to(ROOT)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
