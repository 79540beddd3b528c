"""What this machine is: versions, kernel, limits, disks. Neither its environment nor its other processes."""

import os
import platform
import re
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from raftka.debug.bundle_file import BundleFile
from raftka.debug.deadlines import TimeBudget
from raftka.debug.errors import MissingPartError
from raftka.error_text import short_reason_of
from raftka.version import installed_version

_SECONDS = 10.0
_PROC_BYTES_MAX = 256 * 1024
_PROC_FILES = (
    *("meminfo", "loadavg", "uptime", "vmstat", "sys/vm/overcommit_memory", "sys/vm/max_map_count", "sys/fs/file-nr"),
    *("pressure/cpu", "pressure/io", "pressure/memory"),
)


def add_machine_parts(bundle: BundleFile, budget: TimeBudget, folders: Iterable[Path]) -> None:
    """Add versions, kernel and limits, and the room on the disks of these folders."""
    _add(bundle, budget, "machine/versions.json", _versions)
    _add(bundle, budget, "machine/kernel.json", _kernel)
    add_limits(bundle, budget, "machine/limits.txt", "self")
    _add(bundle, budget, "machine/disks.json", lambda: [_disk(folder) for folder in folders])


def add_limits(bundle: BundleFile, budget: TimeBudget, part: str, pid: str) -> None:
    """Add the limits of a process."""
    try:
        content = budget.run(_SECONDS, lambda: _head(Path(f"/proc/{pid}/limits")))
    except MissingPartError as error:
        bundle.miss(part, str(error))
    else:
        bundle.add_text(part, content)


def _add(bundle: BundleFile, budget: TimeBudget, part: str, read: Callable[[], Any]) -> None:
    try:
        value = budget.run(_SECONDS, read)
    except MissingPartError as error:
        bundle.miss(part, str(error))
    else:
        bundle.add_json(part, value)


def _versions() -> dict[str, Any]:
    found: dict[str, str | None] = {}
    for each in requires("raftka") or []:
        name = re.split(r"[\s;<>=!~\[(]", each, maxsplit=1)[0]
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None  # One of an extra that is not installed.
    return {"raftka": installed_version(), "python": sys.version, "packages": dict(sorted(found.items()))}


def _kernel() -> dict[str, Any]:
    uname = os.uname()
    facts: dict[str, Any] = {
        "system": uname.sysname,
        "release": uname.release,
        "version": uname.version,
        "machine": uname.machine,
        "libc": " ".join(platform.libc_ver()),
        "processors": os.cpu_count(),
        "processors_here": len(os.sched_getaffinity(0)),
    }
    for name in _PROC_FILES:
        try:
            facts[f"/proc/{name}"] = _head(Path("/proc") / name).decode(errors="replace").splitlines()
        except OSError as error:
            facts[f"/proc/{name}"] = short_reason_of(error)
    return facts


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_PROC_BYTES_MAX)


def _disk(folder: Path) -> dict[str, Any]:
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return {"folder": str(folder), "error": short_reason_of(error)}
    return {
        "folder": str(folder),
        "bytes": found.f_blocks * found.f_frsize,
        "free_bytes": found.f_bavail * found.f_frsize,
        "inodes": found.f_files,
        "free_inodes": found.f_favail,
    }
