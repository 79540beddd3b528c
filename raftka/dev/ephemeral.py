"""Folders of `raftka dev --ephemeral`: made below the system's temporary folder, and removed even after SIGKILL."""

import os
import shutil
import tempfile
from pathlib import Path

from raftka.dev.cluster_file import ClusterFolder
from raftka.dev.errors import DevError

_PREFIX = "raftka-dev-"


def new_folder() -> ClusterFolder:
    """Return a new folder; what killed supervisors have left behind is removed first."""
    remove_abandoned(Path(tempfile.gettempdir()))
    return ClusterFolder(Path(tempfile.mkdtemp(prefix=_PREFIX)))


def remove_abandoned(parent: Path) -> None:
    """Remove the folders of ephemeral clusters whose supervisor and brokers are all dead.

    A detached cluster has no supervisor and stays: its brokers may be dead because somebody means to restart them.
    """
    for path in parent.glob(f"{_PREFIX}*"):
        if _is_abandoned(path):
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    try:
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            return False
        state = ClusterFolder(path).load()
    except (OSError, DevError):
        return False
    if state is None or not state.ephemeral or state.supervisor is None or state.supervisor.is_alive:
        return False
    return not any(broker.is_alive for broker in state.brokers)
