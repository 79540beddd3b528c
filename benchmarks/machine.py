"""Facts of this machine that a number depends on, and the waits that keep one run from disturbing the next."""

import os
import platform
import resource
import statistics
import time
from pathlib import Path
from typing import Any

_MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs"}
_DIRTY_BYTES_MAX = 64 * 1024 * 1024
_WRITEBACK_SECONDS = 60.0
_REST_SECONDS = 300.0
_DURABLE_BYTES = 1 << 30
_DURABLE_STEP = 4 << 20
_SYNCS = 100
_QUIET_SECONDS_MAX = 60.0
# Percent of one core. Of two that are shared by a client and three brokers this much moves no row by more than noise.
FOREIGN_LOAD_MAX = 10.0


class BusyMachineError(Exception):
    """Others keep the processors busy; one line for the person at the terminal."""


class UnfitDiskError(Exception):
    """The data folder is not on a disk, or the disk does not come to rest; one line for the person at the terminal."""


def file_system(path: Path) -> str:
    """Return the type of the file system that holds `path`, as /proc/mounts calls it."""
    best, found = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount_point, kind, *_ = line.split()
        is_above = str(path) == mount_point or str(path).startswith(mount_point.rstrip("/") + "/")
        # Later lines lie over earlier ones with the same mount point.
        if is_above and len(mount_point) >= len(best):
            best, found = mount_point, kind
    return found


def check_disk(path: Path) -> None:
    """Refuse a folder in memory: every fsync would be free there.

    Raises:
        UnfitDiskError: `path` is on tmpfs or ramfs.
    """
    kind = file_system(path.resolve())
    if kind in _MEMORY_FILE_SYSTEMS:
        raise UnfitDiskError(f"{path} is on {kind}: an fsync costs nothing there; name a folder on a disk (--data-dir)")


def machine_facts(data_dir: Path) -> dict[str, Any]:
    """Return cpu, cores, memory, kernel, Python and disk; nothing that names the machine."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(_meminfo("MemTotal") / 2**30, 1),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "python": platform.python_version(),
        "disk_file_system": file_system(data_dir.resolve()),
        "disk_fdatasync_ms": _sync_milliseconds(data_dir),
    }


def wait_for_writeback() -> float:
    """Wait until the kernel has little left to write back; returns how many MB it still has (at most for a minute)."""
    deadline = time.monotonic() + _WRITEBACK_SECONDS
    while (left := _meminfo("Dirty") + _meminfo("Writeback")) >= _DIRTY_BYTES_MAX and time.monotonic() < deadline:
        time.sleep(0.2)
    return round(left / 1e6, 1)


def wait_for_rest() -> None:
    """Have the kernel write back what it holds, and wait until less than 64 MB are left.

    Raises:
        UnfitDiskError: Not within five minutes: somebody else writes.
    """
    deadline = time.monotonic() + _REST_SECONDS
    # Without it the kernel waits until pages are 30 s old.
    os.sync()
    while (left := _meminfo("Dirty") + _meminfo("Writeback")) >= _DIRTY_BYTES_MAX:
        if time.monotonic() >= deadline:
            raise UnfitDiskError(
                f"{left / 1e6:.0f} MB were still to be written to the disk after {_REST_SECONDS:.0f} s"
            )
        time.sleep(0.2)


def durable_bandwidth(data_dir: Path) -> float:
    """Return the MB/s of appending 1 GiB of random bytes to one file with an fdatasync after every 4 MiB."""
    block = os.urandom(_DURABLE_STEP)
    path = data_dir / "bandwidth-probe"
    try:
        with path.open("wb", buffering=0) as stream:
            began = time.perf_counter()
            for _ in range(_DURABLE_BYTES // _DURABLE_STEP):
                stream.write(block)
                os.fdatasync(stream.fileno())
            return round(_DURABLE_BYTES / (time.perf_counter() - began) / 1e6, 1)
    finally:
        path.unlink(missing_ok=True)


def drop_page_cache() -> bool:
    """Make the kernel forget every clean page of every file; False where this process may not."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def busy_seconds() -> float:
    """Return the CPU seconds that all cores together have worked since boot."""
    ticks = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, soft_irq, steal = ticks[:8]
    return (user + nice + system + irq + soft_irq + steal) / os.sysconf("SC_CLK_TCK")


def allow_many_files() -> None:
    """Let this process, and the brokers that it starts from now on, have as many files open as the system permits."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def wait_for_quiet(seconds_max: float = _QUIET_SECONDS_MAX, permitted: float = FOREIGN_LOAD_MAX) -> float:
    """Wait until others use next to nothing of the processors; return `foreign_load`.

    Raises:
        BusyMachineError: They do not leave off.
    """
    deadline = time.monotonic() + seconds_max
    while (load := foreign_load()) > permitted:
        if time.monotonic() > deadline:
            raise BusyMachineError(
                f"others use {load:g} % of a core, more than {permitted:g} %: stop them, or measure all the same with "
                "--busy"
            )
    return load


def foreign_load(seconds: float = 2.0) -> float:
    """Return the percent of one core that others use, while nothing of ours runs."""
    before = busy_seconds()
    time.sleep(seconds)
    return round(100 * (busy_seconds() - before) / seconds, 1)


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise KeyError(name)


def _sync_milliseconds(data_dir: Path) -> float:
    """Return the median time of an append of 1 KiB with fdatasync: the floor of every acks=all latency."""
    path = data_dir / "sync-probe"
    times = []
    with path.open("wb", buffering=0) as stream:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            stream.write(bytes(1024))
            os.fdatasync(stream.fileno())
            times.append(time.perf_counter() - began)
    path.unlink()
    return round(1000 * statistics.median(times), 2)
