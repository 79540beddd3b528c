"""A mount namespace for tests that mount and unmount: the machine's own mounts stay as they are.

What is mounted there is gone with the last process that is in it, however that ends.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_SECONDS = 60.0


class MountNamespace:
    """Mounts of its own; `entered` is a command that runs the one behind it among them, in the same process."""

    def __init__(self, pid: int) -> None:
        self.entered = ("nsenter", f"--mount=/proc/{pid}/ns/mnt", "--")

    def run(self, *command: object) -> str:
        """Run a command among these mounts, and return what it prints; one that fails fails the test."""
        line = [*self.entered, *map(str, command)]
        done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=_SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def mount_namespace() -> Iterator[MountNamespace]:
    """Make a namespace that nobody outside sees into; skips the test where none can be made."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a mount namespace")
    if missing := [tool for tool in ("unshare", "nsenter", "mount", "umount") if shutil.which(tool) is None]:
        pytest.skip(f"not installed, of util-linux: {', '.join(missing)}")
    # `cat` says that the namespace is there, and ends when this process closes the pipe, or ends itself.
    command = ["unshare", "--mount", "--propagation", "private", "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        try:
            keeper.stdin.write(b"there\n")
            keeper.stdin.flush()
            if not keeper.stdout.readline():
                pytest.skip(f"no mount namespace can be made: {keeper.stderr.read().decode().strip()}")
            yield MountNamespace(keeper.pid)
        finally:
            keeper.kill()
