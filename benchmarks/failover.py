"""How long a partition is away when its leader is killed, as its clients and as the brokers see it."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, MetricsPoll, eventually, running_cluster
from benchmarks.load import CountingProducer, client_facts
from benchmarks.report import summarize

_RATE = 1000.0
_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.005
_STEADY_SECONDS = 0.5


def measure(data_dir: Path, *, quick: bool) -> dict[str, Any]:
    """Return milliseconds from SIGKILL to the next leader and to the next acknowledged record, of 20 kills."""
    with running_cluster(data_dir) as cluster, cluster.topic(1):
        with CountingProducer(cluster.bootstrap, "all", rate=_RATE) as producer:
            kills = [_kill_once(cluster, producer) for _ in range(3 if quick else 20)]
        errors = list(producer.errors)
    return {
        "what": "milliseconds from SIGKILL of the partition's leader, under 1,000 records/s of 1 KiB at acks=all",
        "client": client_facts(),
        "elected_ms": summarize([kill["elected_ms"] for kill in kills], 0),
        "acknowledged_ms": summarize([kill["acknowledged_ms"] for kill in kills], 0),
        "records_with_errors": len(errors),
        "kills": kills,
    }


def _kill_once(cluster: BenchCluster, producer: CountingProducer) -> dict[str, Any]:
    acked = producer.acked
    eventually("records are acknowledged", lambda: producer.acked > acked + int(_RATE * _STEADY_SECONDS) or None)
    before = cluster.partition()
    if before is None or before["leader"] == -1:
        raise BenchmarkError("no leader to be killed")
    victim = int(before["leader"])
    polls = {
        broker.node_id: MetricsPoll(broker.addresses.admin) for broker in cluster.brokers if broker.node_id != victim
    }
    try:
        for poll in polls.values():
            poll.leads(TOPIC, 0)
        os.kill(cluster.pids[victim], signal.SIGKILL)
        # Not before: what was sent before the signal may have been answered by the victim.
        killed_at = time.perf_counter()
        producer.watch_from(killed_at)
        elected_at, leader = _await_leader(polls)
    finally:
        for poll in polls.values():
            poll.close()
    answered_at = eventually("a record is acknowledged", lambda: producer.first_answer, _WAIT_SECONDS)
    cluster.restart(victim)
    after = eventually("every replica is in sync", lambda: _partition_in_sync(cluster))
    return {
        "elected_ms": round(1000 * (elected_at - killed_at)),
        "acknowledged_ms": round(1000 * (answered_at - killed_at)),
        "killed": victim,
        "elected": leader,
        "terms": int(after["term"]) - int(before["term"]),
    }


def _await_leader(polls: dict[int, MetricsPoll]) -> tuple[float, int]:
    deadline = time.perf_counter() + _WAIT_SECONDS
    while time.perf_counter() < deadline:
        for node, poll in polls.items():
            if poll.leads(TOPIC, 0):
                return time.perf_counter(), node
        time.sleep(_POLL_SECONDS)
    raise BenchmarkError(f"no new leader within {_WAIT_SECONDS:.0f} s")


def _partition_in_sync(cluster: BenchCluster) -> dict[str, Any] | None:
    """Return the partition once all three replicas are in sync; under load they are never equal."""
    found = cluster.partition()
    return found if found is not None and found["leader"] != -1 and len(found["in_sync"]) == 3 else None
