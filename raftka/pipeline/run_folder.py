"""A pipeline's folder: the lock of its runner, its status, the places of its checkpoints."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from raftka.dev.process_identity import ProcessIdentity
from raftka.error_text import reason_of, short_reason_of
from raftka.pipeline.durable_files import replace_file
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.status import Status, decode_status, encode_status

# A JVM ends when its Python does; while it still writes, nobody else may.
_JVM_SECONDS = 60.0


class RunFolder:
    """DIR/NAME."""

    def __init__(self, parent: Path, name: str) -> None:
        self.name = name
        self.path = parent / name

    @property
    def status_path(self) -> Path:
        """What `raftka pipeline status` reads."""
        return self.path / "status.json"

    @property
    def spark_log(self) -> Path:
        """What the JVM says."""
        return self.path / "spark.log"

    def checkpoint(self, version: int) -> Path:
        """Return Spark's checkpoint of a version of the query."""
        return self.path / f"v{version}" / "checkpoint"

    def topics_path(self, version: int) -> Path:
        """Return where the topic ids are that the checkpoint's offsets are of."""
        return self.path / f"v{version}" / "topics.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the pipeline: nobody else runs it, and the JVM of a runner that was killed is gone.

        Raises:
            PipelineError: Somebody runs it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise PipelineError(f"{error.filename}: {short_reason_of(error)}") from None
        try:
            self._take(descriptor)
            self._wait_for_jvm()
            yield
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            status = self.load_readable()
            pid = "" if status is None else f" (pid {status.pid})"
            raise PipelineError(
                f"pipeline {self.name} is already running{pid}: `raftka pipeline stop {self.name}`"
            ) from None

    def save(self, status: Status) -> None:
        """Replace the status."""
        replace_file(self.status_path, encode_status(status))

    def load(self) -> Status | None:
        """Return the status; None where the pipeline has never run.

        Raises:
            PipelineError: It cannot be read.
        """
        try:
            return decode_status(self.status_path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise PipelineError(
                f"{self.status_path}: {reason_of(error)} (the next `raftka pipeline run {self.name}` replaces it)"
            ) from None

    def load_readable(self) -> Status | None:
        """Return the status; None also where it cannot be read: the next run replaces it."""
        try:
            return self.load()
        except PipelineError:
            return None

    def _wait_for_jvm(self) -> None:
        status = self.load_readable()
        if status is None or status.jvm_pid is None or status.jvm_started is None:
            return
        jvm = ProcessIdentity(status.jvm_pid, status.jvm_started)
        if jvm.pid != os.getpid() and not jvm.wait_gone(_JVM_SECONDS):
            raise PipelineError(f"the JVM of an earlier run of {self.name} still runs (pid {jvm.pid})")


def check_checkpoint(path: Path) -> None:
    """Refuse a checkpoint that is damaged where Spark does not say which file it is.

    Raises:
        PipelineError: Its metadata name no query.
    """
    metadata = path / "metadata"
    try:
        msgspec.json.decode(metadata.read_bytes(), type=_Metadata)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise PipelineError(
            f"{metadata}: not the metadata of a checkpoint: {reason_of(error)};"
            " a higher `version` starts with a new checkpoint"
        ) from None


class _Metadata(msgspec.Struct):
    id: str


def run_folders(parent: Path) -> list[RunFolder]:
    """Return the folders of pipelines that have run, in order."""
    if not parent.is_dir():
        return []
    return [RunFolder(parent, path.name) for path in sorted(parent.iterdir()) if (path / "status.json").exists()]
