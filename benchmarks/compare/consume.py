"""Reading one gigabyte of 1 KiB records from the start: just written, again, from files, and by several consumers."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchmarkError, running_cluster
from benchmarks.compare.match import BrokerCpu, Contender, Measurement, Metrics, play, rivals, warm_up
from benchmarks.compare.verdict import Target, match_row
from benchmarks.machine import drop_page_cache, wait_for_rest
from benchmarks.plan import Plan

_SIZE = 1024
_RECORDS = 1_000_000
_QUICK_RECORDS = 100_000
_WRITE_SECONDS_MAX = 600
_MEGABYTE = 1e6
# Leaders keep what was written lately in memory: without this, all that is read here.
_FROM_FILES = {"read.cache.bytes": "0"}


@dataclass(frozen=True, slots=True)
class _Case:
    """One row: how the records are read, and what happens between writing and reading."""

    what: str
    target: Target
    prepare: Callable[[Contender], object] = lambda contender: None
    partitions: int = 1
    consumers: int = 1
    is_from_files: bool = False


def _read_once(contender: Contender) -> None:
    native_client.run("consumer", {"brokers": contender.cluster.bootstrap, "topic": TOPIC, "partitions": 1})


_CASES = (
    _Case("consume 1 GB of 1 KiB records that were just written", Target(">=", 0.8)),
    _Case("consume 1 GB of 1 KiB records again", Target(">=", 1.0), _read_once),
    _Case("consume 1 GB from 8 partitions by 8 consumers at once", Target(">=", 1.0), partitions=8, consumers=8),
    _Case("consume 1 GB from 64 partitions by one consumer", Target(">=", 1.0), partitions=64),
    _Case("consume 1 GB of 1 KiB records from the page cache", Target(">=", 1.0), _read_once, is_from_files=True),
)
_FROM_DISK = _Case(
    "consume 1 GB of 1 KiB records with dropped caches",
    Target(">=", 2.0),
    lambda contender: drop_page_cache(),
    is_from_files=True,
)


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return MB/s of librdkafka consumers, and the brokers' CPU time for each gigabyte."""
    result: dict[str, Any] = {
        "what": "librdkafka consumers with their defaults; MB are 10^6 bytes of values; rows of the page cache and of "
        "dropped caches are of Raftka with read.cache.bytes=0",
    }
    cases = list(_CASES)
    if drop_page_cache():
        cases.append(_FROM_DISK)
    else:
        result["left_out"] = "only root may drop the page cache"
    rows, matches = [], {}
    with rivals(data_dir, plan) as found, running_cluster(data_dir, _FROM_FILES) as from_files:
        warm_up(from_files, plan.warm_up_seconds)
        for case in cases:
            contenders = found.both()
            if case.is_from_files:
                contenders[0] = Contender("raftka", from_files)
            match = play(contenders, case.partitions, plan.pairs, _measurement(case, plan))
            matches[case.what] = match.to_json()
            rows.append(match_row(match, case.what, "MB/s", "megabytes_per_second", case.target))
            what = f"{case.what}: CPU of the brokers"
            rows.append(match_row(match, what, "s/GB", "cpu_seconds_per_gigabyte", Target("<=", 1.0)))
    return result | {"rows": rows, "matches": matches}


def _measurement(case: _Case, plan: Plan) -> Measurement:
    records = _QUICK_RECORDS if plan.is_quick else _RECORDS

    def run(contender: Contender) -> Metrics:
        cluster = contender.cluster
        where = {"brokers": cluster.bootstrap, "topic": TOPIC}
        flood = {"mode": "flood", "size": _SIZE, "count": records, "seconds": _WRITE_SECONDS_MAX}
        written = native_client.run("producer", {**where, **flood}).numbers
        cluster.wait_in_sync(case.partitions)
        # Written back before it is read: a page cache can only forget what is on the disk.
        wait_for_rest()
        case.prepare(contender)
        cpu = BrokerCpu(cluster)
        reads = _read(where, case, cpu)
        size = sum(read["bytes"] for read in reads)
        return {
            # All of them begin at the same time: the slowest one says when everything was read.
            "megabytes_per_second": size / max(read["seconds"] for read in reads) / _MEGABYTE,
            "first_record_seconds": max(read["first_record_seconds"] for read in reads),
            "cpu_seconds_per_gigabyte": cpu.seconds / max(size, 1) * 1e9,
            "errors": written["errors"],
            "missing": sum(read["wanted"] - read["records"] for read in reads),
        }

    return run


def _read(where: dict[str, object], case: _Case, cpu: BrokerCpu) -> list[dict[str, Any]]:
    """Let the consumers read their shares of the partitions at the same time; return what each told."""
    share = case.partitions // case.consumers
    if case.consumers == 1:
        return [native_client.run("consumer", {**where, "partitions": share}, cpu.began, cpu.ended).numbers]
    found: list[dict[str, Any]] = []
    failures: list[BenchmarkError] = []

    def read(first: int) -> None:
        try:
            found.append(native_client.run("consumer", {**where, "first": first, "partitions": share}).numbers)
        except BenchmarkError as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(number * share,)) for number in range(case.consumers)]
    cpu.began()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu.ended()
    if failures:
        raise failures[0]
    return found
