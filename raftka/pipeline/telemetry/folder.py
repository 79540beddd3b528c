"""Where the tables of telemetry lie, and how a batch becomes part of them: by one rename.

batches/b0000000012-1f3a5c7e/windows/*.parquet
                             seconds/*.parquet
                             batch.json
_raftka/telemetry.json       format version
_raftka/staging/             what is being written
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from raftka.pipeline.durable_files import replace_file, sync_file, sync_folder
from raftka.pipeline.errors import PipelineError

FORMAT = 1
WINDOWS, SECONDS = "windows", "seconds"
_RECORD = "batch.json"


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch has added.

    Attributes:
        checkpoint: Spark's id of the checkpoint that it is of.
        batch: Its number.
        windows: Rows of the table of windows.
        seconds: Rows of the table of seconds.
        end_ms: Where its last window ends, in ms since 1970.
    """

    checkpoint: str
    batch: int
    windows: int
    seconds: int
    end_ms: int

    @property
    def name(self) -> str:
        """Name of its folder."""
        return batch_folder(self.checkpoint, self.batch)


def batch_folder(checkpoint: str, batch: int) -> str:
    """Return the name of a batch's folder."""
    return f"b{batch:010}-{checkpoint[:8]}"


class TablesFolder:
    """The folder of one pipeline's tables."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.batches = path / "batches"
        self._own = path / "_raftka"
        self._staging = self._own / "staging"
        self._format_path = self._own / "telemetry.json"

    @classmethod
    def open(cls, text: str | Path) -> "TablesFolder":
        """Return tables that are there.

        Raises:
            PipelineError: There are none, or of another format.
        """
        folder = cls(_local(text))
        folder._check_format()
        return folder

    @classmethod
    def create(cls, text: str | Path) -> "TablesFolder":
        """Return the folder, which is made where there is none.

        Raises:
            PipelineError: It holds something else, or cannot be made.
        """
        folder = cls(_local(text))
        try:
            if folder.path.is_dir() and any(folder.path.iterdir()) and not folder._own.is_dir():
                raise PipelineError(f"{folder.path} holds other things: telemetry needs a folder of its own")
            folder.batches.mkdir(parents=True, exist_ok=True)
            folder._staging.mkdir(parents=True, exist_ok=True)
            if not folder._format_path.exists():
                replace_file(folder._format_path, msgspec.json.encode({"format": FORMAT}) + b"\n")
                sync_folder(folder.path)
        except OSError as error:
            raise PipelineError(f"{error.filename}: {error.strerror}") from None
        folder._check_format()
        return folder

    @property
    def spark_log(self) -> Path:
        """What the JVM says of commands on these tables."""
        return self._own / "spark.log"

    @contextmanager
    def written(self) -> Iterator[None]:
        """Be the only pipeline that writes here; what a crash has left unfinished is gone.

        Raises:
            PipelineError: Another one does.
        """
        descriptor = os.open(self._own / "writing.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PipelineError(f"{self.path}: another pipeline writes to it") from None
            for left in sorted(self._staging.iterdir()):
                shutil.rmtree(left)
            yield
        finally:
            os.close(descriptor)

    def staging_of(self, name: str) -> Path:
        """Return where a batch is written, and make sure that nothing of an earlier attempt is there."""
        path = self._staging / name
        if path.exists():
            shutil.rmtree(path)
        path.mkdir()
        return path

    def has(self, name: str) -> bool:
        """Return whether a batch has been committed."""
        return (self.batches / name).exists()

    def commit(self, record: BatchRecord) -> None:
        """Make what lies in a batch's staging part of the tables, durably and as a whole."""
        staging = self._staging / record.name
        replace_file(staging / _RECORD, msgspec.json.encode(record) + b"\n")
        for path in sorted(staging.rglob("*")):
            sync_file(path)
        sync_folder(staging)
        staging.rename(self.batches / record.name)
        sync_folder(self.batches)

    def records(self) -> list[BatchRecord]:
        """Return what all batches have added, in order of time.

        Raises:
            PipelineError: A record cannot be read.
        """
        found = []
        for path in sorted(self.batches.glob(f"*/{_RECORD}")):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=BatchRecord))
            except (OSError, msgspec.DecodeError) as error:
                raise PipelineError(f"{path}: {error}") from None
        return sorted(found, key=lambda record: (record.end_ms, record.name))

    def table(self, name: str) -> list[str]:
        """Return the folders of a table's Parquet files.

        Raises:
            PipelineError: A record cannot be read.
        """
        return [str(self.batches / record.name / name) for record in self.records()]

    def end_of_others(self, checkpoint: str) -> int:
        """Return where the windows end that were written under other checkpoints, in ms; 0: there are none.

        Raises:
            PipelineError: A record cannot be read.
        """
        return max((record.end_ms for record in self.records() if record.checkpoint != checkpoint), default=0)

    def _check_format(self) -> None:
        try:
            found = msgspec.json.decode(self._format_path.read_bytes(), type=dict[str, int]).get("format")
        except FileNotFoundError:
            raise PipelineError(
                f"{self.path} has no tables of telemetry: there is no {self._format_path.relative_to(self.path)}"
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise PipelineError(f"{self._format_path}: {error}") from None
        if found != FORMAT:
            raise PipelineError(f"{self.path} has tables of format {found}, and {FORMAT} is known here")


def _local(text: str | Path) -> Path:
    if "://" in str(text) and not str(text).startswith("file://"):
        raise PipelineError(f"{text}: the tables are in a local folder, because their commits are renames")
    return Path(str(text).removeprefix("file://")).absolute()
