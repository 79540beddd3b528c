"""Where the tables of telemetry lie, and how a batch becomes part of them: by one rename.

batches/b0000000012-1f3a5c7e/windows/*.parquet
                             seconds/*.parquet
                             replication/*.parquet
                             batch.json
_raftka/telemetry.json       format version
_raftka/staging/             what is being written
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from raftka.error_text import reason_of
from raftka.pipeline.data_folder import DataFolder
from raftka.pipeline.durable_files import replace_file, sync_file, sync_folder
from raftka.pipeline.errors import PipelineError

WINDOWS, SECONDS, REPLICATION = "windows", "seconds", "replication"
_RECORD = "batch.json"


class BatchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch has added.

    Attributes:
        checkpoint: Spark's id of the checkpoint that it is of.
        batch: Its number.
        windows: Rows of the table of windows.
        seconds: Rows of the table of seconds.
        replication: Rows of the table of replication; 0 in batches of earlier versions, which have none.
        end_ms: Where its last window ends, in ms since 1970.
    """

    checkpoint: str
    batch: int
    windows: int
    seconds: int
    end_ms: int
    replication: int = 0

    @property
    def name(self) -> str:
        """Name of its folder."""
        return batch_folder(self.checkpoint, self.batch)


def batch_folder(checkpoint: str, batch: int) -> str:
    """Return the name of a batch's folder."""
    return f"b{batch:010}-{checkpoint[:8]}"


class TablesFolder(DataFolder):
    """The folder of one pipeline's tables."""

    WHAT = "a folder of telemetry"
    FORMAT = 1
    FORMAT_FILE = "telemetry.json"
    COMMITTED = "batches"

    @property
    def batches(self) -> Path:
        """The batches that are part of the tables, a folder each."""
        return self.committed

    @contextmanager
    def written(self) -> Iterator[None]:
        """Be the only pipeline that writes here; what a crash has left unfinished is gone.

        Raises:
            FolderBusyError: Another one does.
        """
        with super().written():
            for left in sorted(self.staging.iterdir()):
                shutil.rmtree(left)
            yield

    def staging_of(self, name: str) -> Path:
        """Return where a batch is written, and make sure that nothing of an earlier attempt is there."""
        path = self.staging / name
        if path.exists():
            shutil.rmtree(path)
        path.mkdir()
        return path

    def has(self, name: str) -> bool:
        """Return whether a batch has been committed."""
        return (self.batches / name).exists()

    def commit(self, record: BatchRecord) -> None:
        """Make what lies in a batch's staging part of the tables, durably and as a whole."""
        staging = self.staging / record.name
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
                raise PipelineError(f"{path}: {reason_of(error)}") from None
        return sorted(found, key=lambda record: (record.end_ms, record.name))

    def table(self, name: str) -> list[str]:
        """Return the folders of a table's Parquet files; batches of earlier versions may lack it.

        Raises:
            PipelineError: A record cannot be read.
        """
        paths = [self.batches / record.name / name for record in self.records()]
        return [str(path) for path in paths if path.exists()]

    def end_of_others(self, checkpoint: str) -> int:
        """Return where the windows end that were written under other checkpoints, in ms; 0: there are none.

        Raises:
            PipelineError: A record cannot be read.
        """
        return max((record.end_ms for record in self.records() if record.checkpoint != checkpoint), default=0)
