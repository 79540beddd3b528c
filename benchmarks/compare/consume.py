"""Reading one gigabyte of 1 KiB records from the start of a partition, in memory or not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC
from benchmarks.compare.match import BrokerCpu, Contender, Measurement, Metrics, play, rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.machine import drop_page_cache, wait_for_rest
from benchmarks.plan import Plan

_SIZE = 1024
_RECORDS = 1_000_000
_QUICK_RECORDS = 100_000
_WRITE_SECONDS_MAX = 600
_MEGABYTE = 1e6


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return MB/s of one librdkafka consumer."""
    cases: dict[str, tuple[Callable[[Contender], object], Target | None]]
    result: dict[str, Any] = {"what": "one librdkafka consumer with its defaults; MB are 10^6 bytes of values"}
    # Raftka writes large appends past the page cache, so what was just written is not in it; who reads again has it.
    cases = {
        "from the page cache": (_read_once, Target(">=", 0.7)),
        "that were just written": (lambda contender: None, None),
    }
    if drop_page_cache():
        cases["with dropped caches"] = (lambda contender: drop_page_cache(), Target(">=", 1.0))
    else:
        result["left_out"] = "only root may drop the page cache"
    rows, matches = [], {}
    with rivals(data_dir, plan) as found:
        for name, (prepare, target) in cases.items():
            what = f"consume 1 GB of 1 KiB records {name}"
            match = play(found.both(), 1, plan.pairs, _measurement(prepare, plan))
            matches[what] = match.to_json()
            rows.append(match_row(match, what, "MB/s", "megabytes_per_second", *([] if target is None else [target])))
            rows.append(match_row(match, f"{what}: CPU of the brokers", "s/GB", "cpu_seconds_per_gigabyte"))
    return result | {"rows": rows, "matches": matches}


def _read_once(contender: Contender) -> None:
    native_client.run("consumer", {"brokers": contender.cluster.bootstrap, "topic": TOPIC, "partitions": 1})


def _measurement(prepare: Callable[[Contender], object], plan: Plan) -> Measurement:
    records = _QUICK_RECORDS if plan.is_quick else _RECORDS

    def run(contender: Contender) -> Metrics:
        cluster = contender.cluster
        where = {"brokers": cluster.bootstrap, "topic": TOPIC}
        flood = {"mode": "flood", "size": _SIZE, "count": records, "seconds": _WRITE_SECONDS_MAX}
        written = native_client.run("producer", {**where, **flood}).numbers
        cluster.wait_in_sync(1)
        # Written back before it is read: a page cache can only forget what is on the disk.
        wait_for_rest()
        prepare(contender)
        cpu = BrokerCpu(cluster)
        read = native_client.run("consumer", {**where, "partitions": 1}, cpu.began, cpu.ended).numbers
        missing = read["wanted"] - read["records"]
        return {
            "megabytes_per_second": read["bytes"] / read["seconds"] / _MEGABYTE,
            "first_record_seconds": read["first_record_seconds"],
            "cpu_seconds_per_gigabyte": cpu.seconds / max(read["bytes"], 1) * 1e9,
            "errors": written["errors"],
            "missing": missing,
        }

    return run
