"""Which process holds the lock of a data directory.

The lock is a flock (`runtime.files`). To find out whether it is held, a shared lock is asked for and given back at
once. It is not kept: a reader whose output waits in a pager would keep a broker from starting.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from raftka.broker.offline.read_only_files import open_quietly

LOCK_NAME = "lock"


def holder_of(data_directory: str) -> str | None:
    """Return who holds the data directory, such as `pid 4711`; None if nobody does.

    Raises:
        OSError: The lock file cannot be opened.
    """
    try:
        descriptor = open_quietly(f"{data_directory}/{LOCK_NAME}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None  # A copy may be without it.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        found = os.fstat(descriptor)
        pid = next((each for each in [*_listed(found), *_openers(found)] if Path(f"/proc/{each}").exists()), None)
        return "a process that is not visible here" if pid is None else f"pid {pid}"
    finally:
        os.close(descriptor)
    return None


def _listed(lock: os.stat_result) -> Iterator[int]:
    """Yield whom the kernel names as holders: first by device and inode, then by inode alone.

    On btrfs and overlays a file has another device here than in /proc/locks.
    """
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return
    # "1: FLOCK ADVISORY WRITE 4711 fe:00:5415470 0 EOF"; one that waits has "->" as its second word.
    held = [(int(line[4]), line[5]) for line in lines if len(line) > 5 and line[1] == "FLOCK" and line[3] == "WRITE"]
    own = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
    yield from (pid for pid, place in held if place == own)
    yield from (pid for pid, place in held if place.rpartition(":")[2] == str(lock.st_ino))


def _openers(lock: os.stat_result) -> Iterator[int]:
    """Yield which processes have the file open; those of other users are not visible to everybody."""
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            opened = list((process / "fd").iterdir())
        except OSError:
            continue
        for each in opened:
            try:
                found = each.stat()
            except OSError:
                continue
            if (found.st_dev, found.st_ino) == (lock.st_dev, lock.st_ino):
                yield int(process.name)
                break
