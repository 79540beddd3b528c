"""The folder of a run: its own, new or empty, and empty again after a run that could not begin."""

import shutil
from pathlib import Path

from raftka.chaos.errors import ChaosError
from raftka.error_text import short_reason_of

_CLUSTER = "cluster"
# What anomalies are found in is kept, under a name that nobody takes for rubbish.
_KEPT_DATA = "data"


def prepare_folder(out: Path) -> None:
    """Make the folder of a run.

    Raises:
        ChaosError: Something is there already.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ChaosError(f"--out {out}: {short_reason_of(error)}") from error
    if any(out.iterdir()):
        raise ChaosError(f"--out {out}: the folder is not empty, and a run's files are its own")


def clear_folder(out: Path) -> None:
    """Take away what a run that could not begin has left, so that it can be tried again with the same folder.

    Only brokers' data stay, where a broker was started: its log says why the cluster did not start.
    """
    for path in out.iterdir():
        if not path.is_dir():
            path.unlink()
    if not any((out / _CLUSTER).rglob("*.log")):
        remove_cluster(out)


def remove_cluster(out: Path) -> None:
    """Remove the data of a run's cluster."""
    shutil.rmtree(out / _CLUSTER, ignore_errors=True)


def keep_cluster(out: Path) -> None:
    """Name the data of a run's cluster so that a finder of a bug has them; nothing without a cluster."""
    if (out / _CLUSTER).exists():
        shutil.move(out / _CLUSTER, out / _KEPT_DATA)
