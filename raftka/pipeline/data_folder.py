"""A local folder that a pipeline's results lie in: its format, and who may change it.

What is the pipeline's own stands below `_raftka`: a file that names the format, what is being written, locks.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self

import msgspec

from raftka.error_text import reason_of, short_reason_of
from raftka.pipeline.durable_files import replace_file, sync_folder
from raftka.pipeline.errors import FolderBusyError, PipelineError

_POLL_SECONDS = 0.2


class DataFolder:
    """One folder; a kind of results is a class below this one.

    Attributes:
        WHAT: What such a folder is, in words: "an archive".
        FORMAT: The version of what is in it.
        FORMAT_FILE: The file below `_raftka` that names it.
        COMMITTED: The folder, from this one, that a commit renames something into.
    """

    WHAT: ClassVar[str]
    FORMAT: ClassVar[int]
    FORMAT_FILE: ClassVar[str]
    COMMITTED: ClassVar[str]

    def __init__(self, path: Path) -> None:
        self.path = path
        self.own = path / "_raftka"
        self.staging = self.own / "staging"
        self.committed = path / self.COMMITTED

    @classmethod
    def open(cls, text: str | Path) -> Self:
        """Return one that is there.

        Raises:
            PipelineError: There is none, or one of another format.
        """
        folder = cls(_local(text, cls.WHAT))
        folder._check_format()
        return folder

    @classmethod
    def create(cls, text: str | Path) -> Self:
        """Return the folder, which is made where there is none.

        Raises:
            PipelineError: It holds something else, or cannot be made.
        """
        folder = cls(_local(text, cls.WHAT))
        try:
            if folder.path.is_dir() and any(folder.path.iterdir()) and not folder.own.is_dir():
                raise PipelineError(f"{folder.path} has other content: {cls.WHAT} needs a folder of its own")
            folder.committed.mkdir(parents=True, exist_ok=True)
            folder.staging.mkdir(parents=True, exist_ok=True)
            if not folder._format_path.exists():
                replace_file(folder._format_path, msgspec.json.encode({"format": cls.FORMAT}) + b"\n")
                sync_folder(folder.path)
        except OSError as error:
            raise PipelineError(f"{error.filename}: {short_reason_of(error)}") from None
        folder._check_format()
        return folder

    @property
    def spark_log(self) -> Path:
        """What the JVM says of commands on this folder."""
        return self.own / "spark.log"

    @contextmanager
    def written(self) -> Iterator[None]:
        """Be the only pipeline that writes here.

        Raises:
            FolderBusyError: Another one does.
        """
        with self._locked("writing", fcntl.LOCK_EX, 0.0, "another pipeline writes to it"):
            yield

    @contextmanager
    def _locked(self, name: str, how: int, seconds: float, otherwise: str) -> Iterator[None]:
        descriptor = os.open(self.own / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = time.monotonic() + seconds
            while not _try_lock(descriptor, how):
                if time.monotonic() >= deadline:
                    raise FolderBusyError(f"{self.path}: {otherwise}")
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    @property
    def _format_path(self) -> Path:
        return self.own / self.FORMAT_FILE

    def _check_format(self) -> None:
        try:
            found = msgspec.json.decode(self._format_path.read_bytes(), type=dict[str, int]).get("format")
        except FileNotFoundError:
            raise PipelineError(
                f"{self.path} is not {self.WHAT}: it has no {self._format_path.relative_to(self.path)}"
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise PipelineError(f"{self._format_path}: {reason_of(error)}") from None
        if found != self.FORMAT:
            raise PipelineError(f"{self.path} is {self.WHAT} of format {found}; this version reads {self.FORMAT}")


def _try_lock(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _local(text: str | Path, what: str) -> Path:
    if "://" in str(text) and not str(text).startswith("file://"):
        raise PipelineError(f"{text}: {what} is a local folder, because its commits are renames")
    return Path(str(text).removeprefix("file://")).absolute()
