"""What `raftka doctor` looks at on this machine. Nothing is changed, but for a file that is written and removed."""

import errno
import os
import resource
import shutil
import socket
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from raftka.cli.clock_state import Synchronisation, clock_synchronisation
from raftka.config import BrokerConfig
from raftka.error_text import short_reason_of
from raftka.health.findings import Finding, Level, ok

# What a broker raises its limit to, enough for 10,000 clients and ten thousand partitions; and what little ones need.
_OPEN_FILES_WANTED = 65_536
_OPEN_FILES_MIN = 4_096
_MEMORY_MIN_BYTES = 512 * 1024**2
_DISK_WARNING_SHARE = 0.1
_VOLATILE_FILESYSTEMS = {"tmpfs": "is memory, and a restart of the machine empties it", "ramfs": "is memory"}
_REMOTE_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"}
# Distributions build with profile-guided optimisation; Debian does it by other means than the flag that is looked for.
_DISTRIBUTION_PREFIX = "/usr"
_SYNC_COUNT = 32
_SYNC_BYTES = 4_096
_SYNC_SLOW_SECONDS = 0.010
_SYNC_BAD_SECONDS = 0.100


def check_machine(config: BrokerConfig) -> Iterator[Finding]:
    """Yield what is found for a broker that is to run here with this configuration."""
    folder = _existing(Path(config.data_dir).expanduser())
    yield _python()
    yield _open_files()
    yield from _memory()
    yield _clock()
    yield from _filesystem(folder)
    yield _disk_room(folder, config.disk_reserve_bytes)
    yield _sync_time(folder)
    yield from _ports(config)


def _python() -> Finding:
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    if "--enable-optimizations" in arguments:
        return ok("python", "built with profile-guided optimisation")
    if sys.base_prefix == _DISTRIBUTION_PREFIX:
        return ok("python", "the distribution's")
    return Finding(
        Level.NOTE,
        "python",
        "built without profile-guided optimisation: a broker is up to a fifth slower",
        "run brokers with the Python of the distribution, or one built with --enable-optimizations",
    )


def _open_files() -> Finding:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= _OPEN_FILES_WANTED:
        shown = "any number of" if hard == resource.RLIM_INFINITY else f"{hard:,}"
        return ok("open files", f"{shown} files and connections may be open")
    return Finding(
        Level.WARNING if hard >= _OPEN_FILES_MIN else Level.PROBLEM,
        "open files",
        f"no more than {hard:,} files and connections may be open (ulimit -Hn)",
        f"raise it to {_OPEN_FILES_WANTED}: LimitNOFILE={_OPEN_FILES_WANTED} in the systemd unit, or nofile in"
        " /etc/security/limits.conf",
    )


def _memory() -> Iterator[Finding]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return
    if available >= _MEMORY_MIN_BYTES:
        yield ok("memory", f"{available / 1e9:.1f} GB are available")
        return
    yield Finding(
        Level.WARNING,
        "memory",
        f"only {available / 1e6:.0f} MB are available: reads will come from the disk, and the kernel may kill a broker",
        "stop something else, or give the machine more memory",
    )


def _clock() -> Finding:
    match clock_synchronisation():
        case Synchronisation.YES:
            return ok("clock", "synchronised")
        case Synchronisation.UNKNOWN:
            return Finding(Level.NOTE, "clock", "the kernel does not report whether it is synchronised")
    return Finding(
        Level.WARNING,
        "clock",
        "not synchronised: retention, timestamps and `--offset @TIME` use it",
        "run chrony or systemd-timesyncd; in a container or virtual machine, on its host",
    )


def _filesystem(folder: Path) -> Iterator[Finding]:
    found = _filesystem_of(folder)
    if found is None:
        return
    if found in _VOLATILE_FILESYSTEMS:
        why = _VOLATILE_FILESYSTEMS[found]
        yield Finding(Level.WARNING, "file system", f"{folder}: {found} {why}", "set data.dir to a folder on a disk")
    elif found in _REMOTE_FILESYSTEMS:
        yield Finding(
            Level.WARNING,
            "file system",
            f"{folder}: {found} is not local: its fsync may guarantee less than that of a local disk",
            "set data.dir to a folder on a disk of this machine",
        )
    else:
        yield ok("file system", f"{folder}: {found}")


def _disk_room(folder: Path, reserve: int) -> Finding:
    usage = shutil.disk_usage(folder)
    words = f"{folder}: {usage.free / 1e9:.1f} of {usage.total / 1e9:.1f} GB are free"
    cure = "make room, keep less (retention.ms, retention.bytes), or set data.dir to another disk"
    if usage.free <= reserve:
        return Finding(
            Level.PROBLEM, "disk room", f"{words}; a broker refuses records below {reserve / 1e9:.1f} GB", cure
        )
    inodes = os.statvfs(folder)
    if inodes.f_files and inodes.f_favail < _DISK_WARNING_SHARE * inodes.f_files:
        return Finding(Level.WARNING, "disk room", f"{folder}: only {inodes.f_favail:,} files may be added", cure)
    if usage.free < _DISK_WARNING_SHARE * usage.total:
        return Finding(Level.WARNING, "disk room", words, cure)
    return ok("disk room", words)


def _sync_time(folder: Path) -> Finding:
    """Append as a broker does, and measure how long the disk takes to say that it has it."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            times = sorted(_timed_sync(file.fileno()) for _ in range(_SYNC_COUNT))
    except OSError as error:
        return Finding(
            Level.PROBLEM,
            "fsync",
            f"{folder} cannot be written to: {short_reason_of(error)}",
            f"give {os.environ.get('USER') or 'this user'} write permission, or set data.dir",
        )
    median, worst = times[len(times) // 2], times[-1]
    words = f"{folder}: median {median * 1e3:.2f} ms, worst {worst * 1e3:.2f} ms of {_SYNC_COUNT}"
    if median < _SYNC_SLOW_SECONDS and worst < _SYNC_BAD_SECONDS:
        return ok("fsync", words)
    return Finding(
        Level.WARNING,
        "fsync",
        f"{words}: acks=all waits for it on a majority",
        "give the broker its own disk or a faster one, or stop other programs that write to it",
    )


def _timed_sync(descriptor: int) -> float:
    os.write(descriptor, bytes(_SYNC_BYTES))
    began = time.perf_counter()
    os.fdatasync(descriptor)
    return time.perf_counter() - began


def _ports(config: BrokerConfig) -> Iterator[Finding]:
    listeners = [
        ("kafka", config.kafka_address, config.kafka_port),
        ("admin", config.admin_address, config.admin_port),
    ]
    if config.has_links:
        listeners.append(("rpc", config.rpc_address, config.rpc_port))
    for name, host, port in listeners:
        yield _port(name, host, port)


def _port(name: str, host: str, port: int) -> Finding:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return Finding(
                Level.NOTE,
                f"{name} port",
                f"{host}:{port} is in use",
                f"fine if a broker runs here; else set {name}.port, or stop what listens (ss -ltnp 'sport = :{port}')",
            )
        return Finding(
            Level.PROBLEM,
            f"{name} port",
            f"cannot listen at {host}:{port}: {short_reason_of(error)}",
            f"set {name}.address and {name}.port to an address and a free port of this machine",
        )
    return ok(f"{name} port", f"{host}:{port} is free")


def _existing(path: Path) -> Path:
    """Return the folder, or the nearest one above that is there: a broker makes the rest."""
    return next(each for each in [path.absolute(), *path.absolute().parents] if each.is_dir())


def _filesystem_of(folder: Path) -> str | None:
    """Return the type of the file system that a folder is on; None where the kernel does not say."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return None
    best, kind = -1, None
    for line in lines:
        fields = line.split()
        # Blanks are written as octal escapes.
        place = fields[1].encode().decode("unicode_escape")
        if folder.resolve().is_relative_to(place) and len(place) >= best:
            best, kind = len(place), fields[2]
    return kind
