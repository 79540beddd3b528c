"""Places in an archive's folder, and who may change it."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from raftka.pipeline.durable_files import replace_file, sync_folder
from raftka.pipeline.errors import ArchiveBusyError, PipelineError

FORMAT = 1
_COMPACTION_SECONDS = 300.0
_POLL_SECONDS = 0.2


class ArchiveFolder:
    """One archive: Parquet files below `topic=T/day=D`, and what says which of them count below `_raftka`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._own = path / "_raftka"
        self.commits = self._own / "commits"
        self.staging = self._own / "staging"

    @classmethod
    def open(cls, text: str | Path) -> "ArchiveFolder":
        """Return an archive that is there.

        Raises:
            PipelineError: There is none, or one of another format.
        """
        folder = cls(local_path(text))
        folder._check_format()
        return folder

    @classmethod
    def create(cls, text: str | Path) -> "ArchiveFolder":
        """Return an archive, which is made where there is none.

        Raises:
            PipelineError: The folder holds something else, or cannot be made.
        """
        folder = cls(local_path(text))
        try:
            if folder.path.is_dir() and any(folder.path.iterdir()) and not folder._own.is_dir():
                raise PipelineError(f"{folder.path} holds other things: an archive needs a folder of its own")
            folder.commits.mkdir(parents=True, exist_ok=True)
            folder.staging.mkdir(exist_ok=True)
            if not folder._format_path.exists():
                replace_file(folder._format_path, msgspec.json.encode({"format": FORMAT}) + b"\n")
                sync_folder(folder.path)
        except OSError as error:
            raise PipelineError(f"{error.filename}: {error.strerror}") from None
        folder._check_format()
        return folder

    @property
    def spark_log(self) -> Path:
        """What the JVM says of commands on this archive."""
        return self._own / "spark.log"

    @property
    def _format_path(self) -> Path:
        return self._own / "archive.json"

    @contextmanager
    def written(self) -> Iterator[None]:
        """Be the only pipeline that writes to the archive.

        Raises:
            ArchiveBusyError: Another one does.
        """
        with self._locked("writing", fcntl.LOCK_EX, 0.0, "another pipeline writes to it"):
            yield

    @contextmanager
    def compacted(self) -> Iterator[None]:
        """Be the only one who replaces files; nobody who has to see all of them reads meanwhile.

        Raises:
            ArchiveBusyError: Somebody does.
        """
        with self._locked("files", fcntl.LOCK_EX, 0.0, "another process compacts, verifies or restores it"):
            yield

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep files from being replaced, after waiting for a compaction to end.

        Raises:
            ArchiveBusyError: It does not end.
        """
        with self._locked("files", fcntl.LOCK_SH, _COMPACTION_SECONDS, "it is being compacted"):
            yield

    @contextmanager
    def _locked(self, name: str, how: int, seconds: float, otherwise: str) -> Iterator[None]:
        descriptor = os.open(self._own / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = time.monotonic() + seconds
            while not _try_lock(descriptor, how):
                if time.monotonic() >= deadline:
                    raise ArchiveBusyError(f"{self.path}: {otherwise}")
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def _check_format(self) -> None:
        try:
            found = msgspec.json.decode(self._format_path.read_bytes(), type=dict[str, int]).get("format")
        except FileNotFoundError:
            raise PipelineError(
                f"{self.path} is no archive: it has no {self._format_path.relative_to(self.path)}"
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise PipelineError(f"{self._format_path}: {error}") from None
        if found != FORMAT:
            raise PipelineError(f"{self.path} is an archive of format {found}, and {FORMAT} is known here")


def _try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def local_path(text: str | Path) -> Path:
    """Return the path of a local folder.

    Raises:
        PipelineError: It is an URL: renaming would not be atomic there.
    """
    if "://" in str(text) and not str(text).startswith("file://"):
        raise PipelineError(f"{text}: an archive is a local folder, because its commits are renames")
    return Path(str(text).removeprefix("file://")).absolute()
