"""Archives without Spark: files that are named like Parquet and hold a word."""

from pathlib import Path

from raftka.pipeline.archive import commits
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.records import ArchivedFile, BatchCommit, CompactionCommit, OffsetRange

TOPIC = "orders"
CHECKPOINT = "0123abcd-0000"


def archived_file(
    staged: str, path: str, rows: int = 10, first: int = 0, size: int = 4, day: str = "2026-01-01"
) -> ArchivedFile:
    return ArchivedFile(
        staged=staged, path=path, topic=TOPIC, day=day, rows=rows, size=size, first=(0, first), partitions={0: rows}
    )


def offset_range(begin: int, end: int, rows: int | None = None, partition: int = 0) -> OffsetRange:
    return OffsetRange(
        topic=TOPIC, partition=partition, begin=begin, end=end, rows=end - begin if rows is None else rows
    )


def staged_batch(folder: ArchiveFolder, batch: int, checkpoint: str = CHECKPOINT) -> BatchCommit:
    """Write a batch of two files of ten records to staging, and return its record."""
    staging = commits.staging_of_batch(folder, checkpoint, batch)
    files = []
    for number in range(2):
        place = staging / f"topic={TOPIC}" / f"day=2026-01-0{number + 1}" / f"part-{number}.parquet"
        place.parent.mkdir(parents=True)
        place.write_text(f"b{batch}f{number}")
        name = f"topic={TOPIC}/day=2026-01-0{number + 1}/{staging.name}-{number:05}.parquet"
        relative = place.relative_to(folder.staging).as_posix()
        day = f"2026-01-0{number + 1}"
        files.append(archived_file(relative, name, first=batch * 20 + number * 10, day=day))
    return BatchCommit(
        checkpoint=checkpoint, batch=batch, files=files, ranges=[offset_range(batch * 20, batch * 20 + 20)]
    )


def staged_compaction(folder: ArchiveFolder, number: int, replaced: list[ArchivedFile]) -> CompactionCommit:
    """Write a file that replaces others to staging, and return its record."""
    staging = commits.staging_of_compaction(folder, number)
    place = staging / f"topic={TOPIC}" / f"day={replaced[0].day}" / "part-0.parquet"
    place.parent.mkdir(parents=True)
    place.write_text("+".join((folder.path / file.path).read_text() for file in replaced))
    name = f"topic={TOPIC}/day={replaced[0].day}/{staging.name}-00000.parquet"
    rows = sum(file.rows for file in replaced)
    file = archived_file(
        place.relative_to(folder.staging).as_posix(), name, rows, replaced[0].first[1], day=replaced[0].day
    )
    return CompactionCommit(number=number, files=[file], replaces=[each.path for each in replaced])


def contents(folder: ArchiveFolder) -> dict[str, str]:
    """Return the Parquet files that readers see, with their words."""
    return {
        path.relative_to(folder.path).as_posix(): path.read_text()
        for path in sorted(folder.path.glob("topic=*/day=*/*.parquet"))
    }


def new_archive(folder: Path) -> ArchiveFolder:
    return ArchiveFolder.create(folder / "cold")
