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


def children(pid: int) -> list[str]:
    """Return the command lines of the processes that the main thread of a process has started and that still run."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [_command_line(int(child)) for child in found]
    except FileNotFoundError:
        # The process has ended since.
        return []


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
