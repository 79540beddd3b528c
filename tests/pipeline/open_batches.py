"""The batch in whose middle a pipeline `archive` is, as its files tell, and a SIGKILL that certainly meets one."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from raftka.dev.process_identity import ProcessIdentity
from raftka.pipeline.archive.batch_offsets import checkpoint_id, completed_batch
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.records import batch_name
from tests.process.broker_processes import eventually

# A look costs little, and the shortest of the moments are milliseconds.
_LOOK_SECONDS = 0.002


class Moment(StrEnum):
    """Where in a batch its driver is."""

    NOTED = "Spark has noted the offsets, and the archive has no record"
    STAGED = "files of it lie in staging, and the archive has no record"
    ARCHIVED = "the archive has the record, and Spark has not noted the batch as done"


class OpenBatches:
    """Tells from the files of a checkpoint and an archive which batch is open."""

    def __init__(self, checkpoint: Path, archive: Path) -> None:
        self._checkpoint = checkpoint
        self._archive = ArchiveFolder.open(archive)

    def at(self, moment: Moment) -> int | None:
        """Return the number of the batch that is at this moment; None: none is."""
        noted = [int(path.name) for path in (self._checkpoint / "offsets").iterdir() if path.name.isdigit()]
        number = max(noted, default=None)
        if number is None or number == completed_batch(self._checkpoint):
            return None
        if self.is_archived(number) != (moment is Moment.ARCHIVED):
            return None
        return number if moment is not Moment.STAGED or self._is_staged(number) else None

    def is_archived(self, number: int) -> bool:
        """Return whether the archive has the record of a batch."""
        return (self._archive.commits / self._name(number)).exists()

    def _is_staged(self, number: int) -> bool:
        staged = self._archive.staging / self._name(number).removesuffix(".json")
        # Not a glob: folders come and go below it, which `os.walk` does not mind.
        return any(name.endswith(".parquet") for _, _, names in os.walk(staged) for name in names)

    def _name(self, number: int) -> str:
        return batch_name(checkpoint_id(self._checkpoint), number)


def kill_at(moment: Moment, batches: OpenBatches, runner: ProcessIdentity, jvm: ProcessIdentity, seconds: float) -> int:
    """Kill a driver while a batch is at a moment, and return the batch's number.

    Python and the JVM are stopped for the look, and killed before they run on: what was seen is so still. Where nothing
    is seen then, because the batch has gone on, both go on as well.
    """
    deadline = time.monotonic() + seconds
    looks = 0
    while time.monotonic() < deadline:
        if batches.at(moment) is not None:
            looks += 1
            with _stopped(runner, jvm):
                number = batches.at(moment)
                if number is not None:
                    assert runner.send_signal(signal.SIGKILL), "the driver has ended by itself"
                    # It runs on without its Python, as after a SIGKILL of the runner alone. At the other moments it
                    # would tidy up, or finish the batch: there it dies as well, as with a machine.
                    assert moment is Moment.NOTED or jvm.send_signal(signal.SIGKILL), "the JVM has ended by itself"
                    return number
        time.sleep(_LOOK_SECONDS)
    raise AssertionError(f"not within {seconds:.0f} s, {looks} batches stopped: {moment}")


@contextmanager
def _stopped(*processes: ProcessIdentity) -> Iterator[None]:
    """Let processes stand still inside; those that live go on afterwards."""
    try:
        for each in processes:
            assert each.send_signal(signal.SIGSTOP), f"process {each.pid} has ended by itself"
        for each in processes:
            # Threads that are in the kernel finish first what they do there, which may be a rename.
            eventually(f"every thread of {each.pid} stands still", lambda pid=each.pid: _states(pid) == {"T"})
        yield
    finally:
        for each in processes:
            each.send_signal(signal.SIGCONT)


def _states(pid: int) -> set[str]:
    """Return the states that the threads of a process are in."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            stat = (task / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            # A thread that was ending.
            continue
        found.add(stat[stat.rindex(")") + 2])
    return found
