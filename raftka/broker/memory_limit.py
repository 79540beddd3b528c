"""How much memory this process may use, and how much of it the read cache takes if nobody says."""

import os
from pathlib import Path

_AUTOMATIC = -1
_SHARE = 8
_READ_CACHE_BYTES_MAX = 1 << 30
# Of control groups, version 2 and version 1, as a container or a unit sees its own.
_LIMIT_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def read_cache_bytes(configured: int) -> int:
    """Return the bound in bytes: what is configured, or for -1 an eighth of the memory, at most 1 GiB."""
    if configured != _AUTOMATIC:
        return configured
    return min(memory_limit() // _SHARE, _READ_CACHE_BYTES_MAX)


def memory_limit(files: tuple[Path, ...] = _LIMIT_FILES) -> int:
    """Return the bytes of memory of the machine, or of the control group if that has less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in files:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        # Version 2 has "max" where there is no limit.
        if text.isdecimal():
            limits.append(int(text))
    return min(limits)
