"""Small disks that a run may fill: a tmpfs per broker, in a mount namespace of the run's own.

Nobody outside sees the mounts, and they are gone with the last process of the run, however it ends.
"""

import ctypes
import errno
import os
import subprocess
from pathlib import Path

from raftka.chaos.errors import ChaosError

_CLONE_NEWNS = 0x00020000
_LIBC = ctypes.CDLL(None, use_errno=True)
FILLER = "filler"
_PAGE_BYTES = 4096


def leave_shared_mounts() -> None:
    """Give this process mounts of its own; what is mounted from here on is nobody else's business.

    Raises:
        ChaosError: The kernel refuses.
    """
    if _LIBC.unshare(_CLONE_NEWNS) != 0:
        raise ChaosError(f"no mount namespace: {os.strerror(ctypes.get_errno())} (the disk nemesis needs root)")
    _run("mount", "--make-rprivate", "/")


def mount_small_disk(path: Path, size_bytes: int) -> None:
    """Put a disk of so many bytes at a folder, which is made.

    Raises:
        ChaosError: It cannot be mounted.
    """
    path.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path))


def unmount(path: Path) -> None:
    """Take a disk away.

    Raises:
        ChaosError: Somebody still uses it.
    """
    _run("umount", str(path))


def fill(path: Path, left_bytes: int) -> int:
    """Fill a disk until so many bytes are left; returns how many were taken, 0 if there were no more.

    It is done at once: what is written piece by piece takes seconds while clients are at work in other threads.
    """
    taken = 0
    with (path / FILLER).open("wb", buffering=0) as stream:
        while (step := _free_bytes(path) - left_bytes) > 0:
            while step > 0 and not _allocate(stream.fileno(), taken, step):
                # Brokers write at the same time. What they leave of the half will be taken next.
                step = step // 2 if step > _PAGE_BYTES else 0
            if not step:
                break
            taken += step
    return taken


def _free_bytes(path: Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def _allocate(descriptor: int, position: int, size: int) -> bool:
    try:
        os.posix_fallocate(descriptor, position, size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


def empty(path: Path) -> None:
    """Take back what `fill` has put there."""
    (path / FILLER).unlink(missing_ok=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ChaosError(f"{' '.join(command)}: {done.stderr.strip()}")
