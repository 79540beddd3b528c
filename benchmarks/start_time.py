"""How long `raftka dev -n 3` takes until a record is on a majority's disks, and how long each `--help` takes."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message

from benchmarks.cluster import DEADLINE_SECONDS, TOPIC, BenchmarkError
from benchmarks.compare.verdict import Target, row
from benchmarks.plan import Plan
from benchmarks.report import summarize
from raftka.cli.root import COMMANDS
from raftka.kafka.client import create_topic, new_producer

_MARK = "bootstrap: "
_RAFTKA = str(Path(sys.executable).parent / "raftka")
# Longer is felt as waiting, by somebody who only asks what there is.
_HELP = Target("<=", 0.2, "value")


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return seconds from exec to the line with the addresses and to the first acknowledged record, of 10 runs."""
    count = 2 if plan.is_quick else 10
    runs = [_start_once(data_dir) for _ in range(count)]
    times = [run["acknowledged"] for run in runs]
    own_help, helps = _time_help(count), {name: _time_help(count, name) for name in COMMANDS}
    slowest = max(helps, key=lambda name: statistics.median(helps[name]))
    what = f"`raftka dev`, three brokers: exec to the first record acknowledged at acks=all, median of {len(runs)}"
    return {
        "rows": [
            row(what, "s", times, [], Target("<=", 2.0, "value")),
            row(f"`raftka --help`, median of {count}", "s", own_help, [], _HELP),
            row(f"`raftka COMMAND --help`, the slowest of {len(helps)}: {slowest}", "s", helps[slowest], [], _HELP),
        ],
        "what": "seconds from exec of `raftka dev -n 3 --ephemeral` to the first record acknowledged at acks=all",
        "acknowledged_seconds": summarize(times),
        "help_seconds": {name: summarize(each) for name, each in {"raftka": own_help, **helps}.items()},
        "runs": runs,
    }


def _time_help(count: int, *command: str) -> list[float]:
    """Return the seconds from exec to the end of a `--help`; the first one, which may compile modules, is left out."""
    times = []
    for _ in range(count + 1):
        began = time.perf_counter()
        subprocess.run([_RAFTKA, *command, "--help"], stdout=subprocess.DEVNULL, check=True, timeout=DEADLINE_SECONDS)
        times.append(round(time.perf_counter() - began, 4))
    return times[1:]


def _start_once(data_dir: Path) -> dict[str, float]:
    command = [_RAFTKA, "dev", "-n", "3", "--ephemeral"]
    ports = ["--port", "0", "--admin-port", "0", "--rpc-port", "0"]
    with tempfile.TemporaryDirectory(dir=data_dir) as folder:
        # --ephemeral makes its folder where temporary files go: here, on the disk.
        environment = os.environ | {"TMPDIR": folder}
        began = time.perf_counter()
        process = subprocess.Popen([*command, *ports], stdout=subprocess.PIPE, text=True, env=environment)
        try:
            bootstrap = _read_bootstrap(process)
            ready = time.perf_counter() - began
            _write_one(bootstrap)
            return {"ready": round(ready, 3), "acknowledged": round(time.perf_counter() - began, 3)}
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE_SECONDS)


def _read_bootstrap(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(_MARK):
            return line.removeprefix(_MARK).strip()
    raise BenchmarkError(f"`raftka dev` ended with exit code {process.wait()}")


def _write_one(bootstrap: str) -> None:
    outcomes: list[KafkaError | None] = []

    def note(error: KafkaError | None, _: Message) -> None:
        outcomes.append(error)

    create_topic(bootstrap, TOPIC, 1, 3)
    producer = new_producer(bootstrap, "all", linger_ms=0)
    producer.produce(TOPIC, b"first", on_delivery=note)
    producer.flush(DEADLINE_SECONDS)
    if outcomes != [None]:
        raise BenchmarkError(f"the first record was not acknowledged: {outcomes}")
