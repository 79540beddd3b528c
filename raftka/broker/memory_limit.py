"""How much memory this process may use, and how much of it the read cache takes if nobody says."""

import os
from pathlib import Path

_AUTOMATIC = -1
_SHARE = 8
_READ_CACHE_BYTES_MAX = 1 << 30
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def read_cache_bytes(configured: int) -> int:
    """Return the bound in bytes: what is configured, or for -1 an eighth of the memory, at most 1 GiB."""
    if configured != _AUTOMATIC:
        return configured
    return min(memory_limit() // _SHARE, _READ_CACHE_BYTES_MAX)


def memory_limit(own_groups: Path = _OWN_GROUPS, groups: Path = _GROUPS) -> int:
    """Return the bytes of memory of the machine, or of the smallest control group around this process."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        lines = own_groups.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        # "0::/system.slice/raftka.service" in version 2, "9:memory:/docker/..." in version 1.
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            limits += _limits(groups, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(groups / "memory", path, "memory.limit_in_bytes")
    return min(limits)


def _limits(root: Path, path: str, name: str) -> list[int]:
    """Return the limits of a group and of those around it; in a container the path may not exist, but the root does."""
    found = []
    group = root / path.lstrip("/")
    for each in (group, *group.parents):
        try:
            text = (each / name).read_text().strip()
        except OSError:
            text = ""
        # Version 2 has "max" where there is no limit.
        if text.isdecimal():
            found.append(int(text))
        if each == root:
            break
    return found
