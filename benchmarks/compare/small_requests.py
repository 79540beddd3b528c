"""Kafka's own ProducerPerformance with the Java producer's defaults: batches of 16 KiB, so many small requests."""

import re
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC, BenchmarkError
from benchmarks.compare.match import BrokerCpu, Contender, Measurement, Metrics, RefusedError, play, rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.kafka.kafka_cluster import java_command
from benchmarks.plan import Plan

_SIZE = 1024
_TARGET = Target(">=", 1.5)
# acks=1 turns idempotence off by itself.
_CASES: dict[str, list[str]] = {"its defaults (acks=all)": ["acks=all"], "its defaults, acks=1": ["acks=1"]}
_RECORDS_MAX = 1_000_000_000
# The tool tells what it sent every 5 s. The first lines are of a JVM that is still compiling.
_TOOL_SECONDS = 5.0
_UNSUPPORTED = "UnsupportedVersionException"
_LINE = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .*?([\d.]+) ms avg latency")


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return MB/s at each level."""
    rows, matches = [], {}
    with rivals(data_dir, plan) as found:
        for name, properties in _CASES.items():
            match = play(found.both(), 1, plan.pairs, _measurement(properties, plan))
            what = f"ProducerPerformance, 1 KiB, 1 partition, {name}"
            matches[what] = match.to_json()
            rows.append(match_row(match, what, "MB/s", "megabytes_per_second", _TARGET))
    return {
        "what": "Kafka's ProducerPerformance, throughput -1; the intervals of 5 s after the first ones, which warm its "
        "JVM up; MB are 10^6 bytes of values",
        "rows": rows,
        "matches": matches,
    }


def _measurement(properties: list[str], plan: Plan) -> Measurement:
    skipped = 1 if plan.is_quick else 2
    counted = max(1, round(plan.seconds / _TOOL_SECONDS))

    def run(contender: Contender) -> Metrics:
        arguments = ["--topic", TOPIC, "--num-records", str(_RECORDS_MAX), "--record-size", str(_SIZE)]
        where = f"bootstrap.servers={contender.cluster.bootstrap}"
        tool = ["org.apache.kafka.tools.ProducerPerformance", *arguments, "--throughput", "-1"]
        command = java_command(*tool, "--producer-props", where, *properties)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            return _read_intervals(process, contender, skipped, counted)
        finally:
            process.kill()
            process.communicate()

    return run


def _read_intervals(process: "subprocess.Popen[str]", contender: Contender, skipped: int, counted: int) -> Metrics:
    assert process.stdout is not None
    cpu = BrokerCpu(contender.cluster)
    errors = intervals = records = 0
    began = time.perf_counter()
    unread = []
    for line in process.stdout:
        found = _LINE.match(line)
        if found is None:
            # Its warnings and stack traces name the exception that a record met with.
            errors += "Exception" in line
            unread.append(line.strip())
            continue
        intervals += 1
        if intervals == skipped:
            cpu.began()
            began = time.perf_counter()
        elif intervals > skipped:
            records += int(found[1])
        if intervals == skipped + counted:
            cpu.ended()
            total = records * _SIZE
            seconds = time.perf_counter() - began
            return {
                "megabytes_per_second": total / seconds / 1e6,
                "records_per_second": records / seconds,
                "cpu_seconds_per_gigabyte": cpu.seconds / max(total, 1) * 1e9,
                "errors": errors,
            }
    for line in unread:
        if _UNSUPPORTED in line:
            raise RefusedError(line.rpartition(f"{_UNSUPPORTED}: ")[2])
    raise BenchmarkError(f"ProducerPerformance ended with {process.wait()}: {' '.join(unread[-5:])}")
