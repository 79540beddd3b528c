"""CPU and memory of processes, from /proc."""

import os
from pathlib import Path

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
