"""How long a partition is away when its leader is killed, stopped or cut off from the others."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, LeaderPoll, eventually, running_cluster
from benchmarks.compare.verdict import Target, row
from benchmarks.faults import Cut, Fault, Kill, Stop, in_own_network
from benchmarks.load import CountingProducer, client_facts
from benchmarks.plan import Plan
from benchmarks.report import ROOT, summarize

_RATE = 1000.0
_WAIT_SECONDS = 60.0
_ANSWER_SECONDS = 20.0
_POLL_SECONDS = 0.005
_STEADY_SECONDS = 0.5
_REPEATS, _QUICK_REPEATS = 20, 2
_FAULTS: dict[str, type[Fault]] = {"SIGKILL": Kill, "SIGSTOP": Stop, "cut links": Cut}
# Without it librdkafka waits half a minute for the answer of a broker that has stopped.
_IMPATIENT = {"request_timeout_ms": 500, "socket_timeout_ms": 1000}


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return milliseconds from each fault to the next leader and to the next acknowledged record."""
    repeats = _QUICK_REPEATS if plan.is_quick else _REPEATS
    found: dict[str, Any] = {name: measure_fault(name, data_dir, repeats) for name in ("SIGKILL", "SIGSTOP")}
    rows = [_row("SIGKILL", found, max, 3.0, "worst"), _row("SIGSTOP", found, _median, 3.0, "median")]
    rows.insert(0, _row("SIGKILL", found, _median, 1.0, "median"))
    cut = in_own_network("benchmarks.failover", "cut links", str(data_dir), str(repeats))
    if cut is None:
        found["cut links"] = "left out: only root may have a network namespace of its own"
    else:
        found["cut links"] = _run_elsewhere(cut)
        rows.append(_row("cut links", found, _median, 3.0, "median"))
    return {
        "what": "milliseconds from a fault of the partition's leader, under 1,000 records/s of 1 KiB at acks=all",
        "client": client_facts() | {"beside a stopped or cut broker": _IMPATIENT},
        "rows": rows,
        **found,
    }


def _median(samples: list[float]) -> float:
    return summarize(samples)["median"]


def _row(name: str, found: dict[str, Any], pick: Any, bound: float, word: str) -> dict[str, Any]:
    seconds = pick([each["acknowledged_ms"] / 1000 for each in found[name]["faults"]])
    what = f"failover after {name}: to the first new record acknowledged, {word} of {len(found[name]['faults'])}"
    return row(what, "s", [seconds], [], Target("<=", bound, "value"))


def _run_elsewhere(command: list[str]) -> dict[str, Any]:
    found = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode != 0:
        raise BenchmarkError("failover with cut links failed")
    return dict(json.loads(found.stdout))


def measure_fault(name: str, data_dir: Path, repeats: int) -> dict[str, Any]:
    """Return summaries of both times for one kind of fault, and each fault."""
    fault = _FAULTS[name]()
    options = {} if name == "SIGKILL" else _IMPATIENT
    with running_cluster(data_dir) as cluster, cluster.topic(1):
        with CountingProducer(cluster.bootstrap, "all", rate=_RATE, **options) as producer:
            faults = [_one_fault(cluster, producer, fault) for _ in range(repeats)]
        errors = list(producer.errors)
    return {
        "elected_ms": summarize([each["elected_ms"] for each in faults], 0),
        "acknowledged_ms": summarize([each["acknowledged_ms"] for each in faults], 0),
        "records_with_errors": len(errors),
        "faults": faults,
    }


def _one_fault(cluster: BenchCluster, producer: CountingProducer, fault: Fault) -> dict[str, Any]:
    acked = producer.acked
    eventually("records are acknowledged", lambda: producer.acked > acked + int(_RATE * _STEADY_SECONDS) or None)
    before = cluster.partition()
    if before is None or before["leader"] == -1:
        raise BenchmarkError("no leader to be taken away")
    victim = int(before["leader"])
    others = {each.node_id: LeaderPoll(each.addresses.admin) for each in cluster.brokers if each.node_id != victim}
    try:
        for poll in others.values():
            poll.leads(TOPIC, 0)
        fault.inflict(cluster, victim)
        # Not before: what was sent before the signal may have been answered by the victim.
        struck_at = time.perf_counter()
        producer.watch_from(struck_at)
        elected_at, leader = _await_leader(others)
        is_acknowledged = _await_answer(producer)
        answered_at = producer.first_answer or time.perf_counter()
    finally:
        for poll in others.values():
            poll.close()
        fault.heal(cluster, victim)
    after = eventually("every replica is in sync", lambda: _partition_in_sync(cluster))
    return {
        "elected_ms": round(1000 * (elected_at - struck_at)),
        "acknowledged_ms": round(1000 * (answered_at - struck_at)),
        "is_acknowledged": is_acknowledged,
        "victim": victim,
        "elected": leader,
        "terms": int(after["term"]) - int(before["term"]),
    }


def _await_leader(polls: dict[int, LeaderPoll]) -> tuple[float, int]:
    deadline = time.perf_counter() + _WAIT_SECONDS
    while time.perf_counter() < deadline:
        for node, poll in polls.items():
            if poll.leads(TOPIC, 0):
                return time.perf_counter(), node
        time.sleep(_POLL_SECONDS)
    raise BenchmarkError(f"no new leader within {_WAIT_SECONDS:.0f} s")


def _await_answer(producer: CountingProducer) -> bool:
    """Return whether a new record was acknowledged in time; if not, the time it took is at least the wait."""
    try:
        eventually("a record is acknowledged", lambda: producer.first_answer, _ANSWER_SECONDS)
    except BenchmarkError:
        return False
    return True


def _partition_in_sync(cluster: BenchCluster) -> dict[str, Any] | None:
    """Return the partition once all three replicas are in sync; under load they are never equal."""
    found = cluster.partition()
    return found if found is not None and found["leader"] != -1 and len(found["in_sync"]) == 3 else None


def main() -> int:
    """Measure one kind of fault and print JSON: what `measure` runs in a network namespace of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failover")
    parser.add_argument("fault", choices=list(_FAULTS))
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("repeats", type=int)
    arguments = parser.parse_args()
    try:
        print(json.dumps(measure_fault(arguments.fault, arguments.data_dir, arguments.repeats)))
    except BenchmarkError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
