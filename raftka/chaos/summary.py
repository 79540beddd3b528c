"""A run in figures, for programs and for the table of many runs."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from raftka.chaos.broker_logs import BrokerLogs
from raftka.chaos.history import OUTAGE_SECONDS, History
from raftka.chaos.losses import LossReport
from raftka.chaos.run_facts import RunFacts, RunRequest
from raftka.check.verdict import Verdict
from raftka.version import installed_version

_ERRORS_SHOWN = 12


def summarize(
    request: RunRequest,
    history: History,
    facts: RunFacts,
    logs: BrokerLogs,
    verdict: Verdict | None,
    losses: LossReport | None,
    problems: list[str],
    outcome: str,
) -> dict[str, Any]:
    """Return everything that a table of runs may want to know."""
    seconds = max(1e-9, (facts.ended_ns - facts.began_ns) / 1e9)
    sends = sum(
        number for name, number in history.counts.items() if name.startswith(("send ", "cas ", "read ", "txn "))
    )
    return {
        "command": request.command,
        "commit": _commit(),
        "versions": _versions(),
        "machine": machine(),
        "workload": request.workload,
        "acks": request.acks,
        "nemeses": request.nemeses,
        "brokers": request.brokers if request.bootstrap is None else None,
        "seed": request.schedule.seed,
        "seconds": round(seconds, 1),
        "outcome": outcome,
        "problems": problems,
        "anomalies": {} if verdict is None else {each.name: each.cases for each in verdict.findings},
        "allowed": {} if verdict is None else verdict.allowed,
        "measures": {} if verdict is None else verdict.measures,
        "operations": dict(sorted(history.counts.items())),
        "acked": history.acked,
        "operations_per_second": round(sends / seconds, 1),
        "acked_per_second": round(history.acked / seconds, 1),
        "latency_ms": history.latencies.summary(),
        "faults": count_faults(history),
        "undone": msgspec.to_builtins(facts.undone),
        "deaths": [{"node": node, "exit_code": code, "said": said} for node, code, said in facts.deaths],
        "outages": {
            "longer_than_seconds": OUTAGE_SECONDS,
            "windows": len(history.outages),
            "longest_seconds": round(max((end - begin for _, begin, end in history.outages), default=0) / 1e9, 2),
        },
        "elections": len(logs.elections),
        "compaction": None if facts.compaction is None else facts.compaction._asdict(),
        "losses": msgspec.to_builtins(losses),
        "errors": dict(history.errors.most_common(_ERRORS_SHOWN)),
    }


def count_faults(history: History) -> dict[str, int]:
    """Return how often each kind of fault happened, in the order in which they first did."""
    found: dict[str, int] = {}
    for fault in history.faults:
        name = fault["name"]
        if not name.endswith(" ends") and name != "healed":
            found[name] = found.get(name, 0) + 1
    return found


def machine() -> dict[str, Any]:
    """Return what kind of machine this is; nothing that would name it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "kernel": kernel,
        "python": platform.python_version(),
    }


def _versions() -> dict[str, str]:
    import confluent_kafka

    return {
        "raftka": installed_version(),
        "confluent-kafka": confluent_kafka.version()[0]
        if isinstance(confluent_kafka.version(), tuple)
        else str(confluent_kafka.version()),
        "librdkafka": confluent_kafka.libversion()[0],
    }


def _commit() -> str | None:
    """Return the commit of the checkout that this runs from; None: it does not run from one."""
    command = ["git", "-C", str(Path(__file__).parents[2]), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
