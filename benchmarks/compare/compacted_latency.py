"""Latency at a given rate while passes of log compaction run all the time, beside the same load without passes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchCluster, Cluster, eventually
from benchmarks.compare.compacted import (
    IDEMPOTENT,
    IMPATIENT,
    KAFKA,
    KEYS,
    RAFTKA,
    SMALL_SEGMENTS,
    brokers_in_a_pass,
    contenders,
    passes,
    ratio_row,
)
from benchmarks.compare.latencies import latency_options, quantiles
from benchmarks.compare.match import Contender, Measurement, Metrics, play, rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.plan import Plan

RATE = 1000
# So many records before the load have nearly every key: each pass then reads and writes 10 MiB that are clean.
_EARLIER_RECORDS = 3 * KEYS
_LOOK_SECONDS = 0.1
# Longer than a pass over these records.
_REST_SECONDS = 4.0


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return p50 and p99 with and without passes, their ratio beside Kafka's, and how much of the time had passes."""
    with rivals(data_dir, plan, IMPATIENT, properties=IMPATIENT) as found:
        match = play(contenders(found, SMALL_SEGMENTS), 1, plan.pairs, _measurement(plan))
    what = f"{RATE:,}/s of 1 KiB with keys, without linger, acks=all"
    rows = [
        ratio_row(match, f"{what}: p99 while passes run to p99 without", "p99_ms", Target("<=", 1.5, "value")),
        ratio_row(match, f"{what}: p50 while passes run to p50 without", "p50_ms"),
    ]
    for label, words in ((0, "while passes run"), (1, "without passes")):
        for name in ("p50", "p99"):
            pair = {"ours": RAFTKA[label], "theirs": KAFKA[label]}
            rows.append(match_row(match, f"{what}, {words}: {name}", "ms", f"{name}_ms", **pair))
    return {
        "what": f"librdkafka, one partition with three replicas, from the intended send time to the delivery report; "
        f"keys of 16 bytes, {KEYS:,} of them at random; segments of 1 MiB, and a pass after each of them; brokers look "
        "for dirty logs each 0.1 s. `time_with_passes` is the share of the window in which a broker had the process of "
        "a pass, from 0 to 1, and the mean over the brokers; Kafka's passes run in threads",
        "rows": rows,
        "matches": {what: match.to_json()},
    }


def _measurement(plan: Plan) -> Measurement:
    def run(contender: Contender) -> Metrics:
        cluster, is_compacted = contender.cluster, contender.label in (RAFTKA.compacted, KAFKA.compacted)
        fill(cluster, is_compacted=is_compacted)
        counted = PassCount(cluster)
        with counted.sampled():
            options = latency_options(cluster, "open", plan, rate=RATE, keys=KEYS)
            produced = native_client.run("producer", options, counted.began, counted.ended)
        found = {**quantiles(produced), "passes": counted.passes, "time_with_passes": counted.share}
        if is_compacted and not counted.passes:
            print(f"   {contender.label}: no pass has ended in the window", flush=True)
            found["errors"] += 1
        return found

    return run


def fill(cluster: Cluster, *, is_compacted: bool) -> None:
    """Write records with nearly every key, and wait where the topic is compacted until they are clean.

    Raises:
        BenchmarkError: There was no pass in time.
    """
    before = latest = passes(cluster)
    where = {"brokers": cluster.bootstrap, "topic": TOPIC}
    native_client.run(
        "producer", {**where, "mode": "flood", "count": _EARLIER_RECORDS, "keys": KEYS, "conf": IDEMPOTENT}
    )
    if is_compacted:
        eventually("a first pass", lambda: passes(cluster) > before or None)
        # The first passes have more to read than those that are measured.
        while (ended := passes(cluster)) != latest:
            latest = ended
            time.sleep(_REST_SECONDS)


@dataclass(slots=True)
class PassCount:
    """Passes that end between `began` and `ended`.

    Attributes:
        cluster: Whose they are.
        passes: How many have ended, on all brokers.
        share: The part of the time in which a broker made one, the mean over the brokers; 0: not known.
    """

    cluster: Cluster
    passes: int = 0
    share: float = 0.0
    _is_open: bool = False

    def began(self) -> None:
        """Begin to count."""
        self.passes, self._is_open = -passes(self.cluster), True

    def ended(self) -> None:
        """End to count."""
        self.passes, self._is_open = self.passes + passes(self.cluster), False

    @contextmanager
    def sampled(self) -> Iterator[None]:
        """Look meanwhile, ten times a second of the window, which brokers make a pass; only Raftka's have a process."""
        if not isinstance(self.cluster, BenchCluster):
            yield
            return
        cluster, halt, counts = self.cluster, threading.Event(), []

        def look() -> None:
            while not halt.wait(_LOOK_SECONDS):
                if self._is_open:
                    counts.append(brokers_in_a_pass(pids) / len(pids))

        # Asked once: each time the cluster reads a file of what it knows.
        pids = list(cluster.pids.values())
        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            halt.set()
            thread.join()
        self.share = sum(counts) / max(len(counts), 1)
