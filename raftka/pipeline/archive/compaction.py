"""Joins small files of an archive; each join is a commit of its own."""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession

from raftka.pipeline.archive import commits
from raftka.pipeline.archive.compaction_plan import plan
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.manifest import load_manifest
from raftka.pipeline.archive.reading import describe_staged, read_files
from raftka.pipeline.archive.records import ArchivedFile, CompactionCommit
from raftka.pipeline.errors import PipelineError


class Compacted(NamedTuple):
    """What a compaction came to."""

    files_before: int
    files_after: int


def compact(spark: SparkSession, folder: ArchiveFolder, target_bytes: int) -> Compacted:
    """Join what is small. The archive may be written and read meanwhile.

    Raises:
        FolderBusyError: Another compaction runs, or the archive is verified or restored.
        PipelineError: Files are damaged or gone.
    """
    with folder.compacted():
        commits.settle_compactions(folder)
        manifest = load_manifest(folder)
        before = len(manifest.files)
        number = manifest.compactions
        joined = 0
        for group in plan(manifest.files.values(), target_bytes):
            record = _join(spark, folder, number, group)
            commits.commit(folder, record)
            commits.settle(folder, record)
            joined += len(group) - len(record.files)
            number += 1
    return Compacted(before, before - joined)


def _join(spark: SparkSession, folder: ArchiveFolder, number: int, group: Sequence[ArchivedFile]) -> CompactionCommit:
    staging = commits.staging_of_compaction(folder, number)
    rows = read_files(spark, folder, group)
    rows.coalesce(1).sortWithinPartitions("topic", "day", "partition", "offset").write.partitionBy(
        "topic", "day"
    ).parquet(str(staging))
    staged = describe_staged(spark, folder, staging, staging.name)
    _check_same(group, staged.files)
    return CompactionCommit(number=number, files=staged.files, replaces=[file.path for file in group])


def _check_same(before: Sequence[ArchivedFile], after: Sequence[ArchivedFile]) -> None:
    """Refuse a join in which rows were lost: a file that was damaged or swapped must not be replaced by less."""
    if counted(before) != counted(after):
        raise PipelineError(
            f"files of {before[0].topic} of {before[0].day} do not hold what their records say"
            f" ({counted(before)} records by partition, and {counted(after)} were read): nothing was changed"
        )


def counted(files: Sequence[ArchivedFile]) -> dict[int, int]:
    """Return how many rows files have, by partition."""
    found: dict[int, int] = {}
    for file in files:
        for partition, rows in file.partitions.items():
            found[partition] = found.get(partition, 0) + rows
    return dict(sorted(found.items()))
