"""Places in an archive's folder, and who may change it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raftka.pipeline.data_folder import DataFolder

_COMPACTION_SECONDS = 300.0


class ArchiveFolder(DataFolder):
    """One archive: Parquet files below `topic=T/day=D`, and what says which of them count below `_raftka`."""

    WHAT = "an archive"
    FORMAT = 1
    FORMAT_FILE = "archive.json"
    COMMITTED = "_raftka/commits"

    @property
    def commits(self) -> Path:
        """The records of batches and compactions."""
        return self.committed

    @contextmanager
    def compacted(self) -> Iterator[None]:
        """Be the only one who replaces files; nobody who has to see all of them reads meanwhile.

        Raises:
            FolderBusyError: Somebody does.
        """
        with self._locked("files", fcntl.LOCK_EX, 0.0, "another process compacts, verifies or restores it"):
            yield

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep files from being replaced, after waiting for a compaction to end.

        Raises:
            FolderBusyError: It does not end.
        """
        with self._locked("files", fcntl.LOCK_SH, _COMPACTION_SECONDS, "it is being compacted"):
            yield
