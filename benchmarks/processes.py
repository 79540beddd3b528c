"""CPU and memory of processes, from /proc."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import busy_seconds

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads of a process."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    # Behind the command, which stands in parentheses and may hold anything, `state` is field 3.
    fields = stat[stat.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_megabytes(pid: int) -> float:
    """Return the resident memory of a process in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    raise ProcessLookupError(pid)


@dataclass(frozen=True, slots=True)
class CpuMark:
    """CPU time used up to a moment; `cpu_between` turns two of them into shares."""

    at: float
    brokers: Mapping[int, float]
    client: float
    machine: float


def mark_cpu(pids: Mapping[int, int]) -> CpuMark:
    """Return what the brokers (pid by node id), this process and the machine have used up to now."""
    return CpuMark(
        time.perf_counter(),
        {node: cpu_seconds(pid) for node, pid in pids.items()},
        time.process_time(),
        busy_seconds(),
    )


def cpu_between(first: CpuMark, last: CpuMark) -> dict[str, Any]:
    """Return percents of one core: of each broker, of this process (the client), and of all others together."""
    seconds = last.at - first.at

    def percent(used: float) -> float:
        return round(100 * used / seconds, 1)

    brokers = {node: last.brokers[node] - used for node, used in first.brokers.items()}
    client = last.client - first.client
    others = last.machine - first.machine - client - sum(brokers.values())
    return {
        "brokers_cpu_percent": {str(node): percent(used) for node, used in brokers.items()},
        "client_cpu_percent": percent(client),
        # Also what the kernel does in its own threads, such as writing back.
        "others_cpu_percent": max(0.0, percent(others)),
    }
