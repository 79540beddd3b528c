"""The files that count, as DataFrames."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.frames import SCHEMA
from raftka.pipeline.archive.manifest import load_manifest, place_of
from raftka.pipeline.archive.records import ArchivedFile

Partition = tuple[str, int]


class Staged(NamedTuple):
    """What was written to staging, as it was read back.

    Attributes:
        files: As a record has them.
        seen: Lowest offset, highest offset and number of records, by partition.
    """

    files: list[ArchivedFile]
    seen: dict[Partition, tuple[int, int, int]]


def read_archive(spark: SparkSession, path: str | Path, topic: str) -> DataFrame:
    """Return all records of an archived topic, each once.

    Raises:
        PipelineError: There is no such archive, or files of it are gone.
    """
    folder = ArchiveFolder.open(path)
    return read_files(spark, folder, load_manifest(folder).files_of(topic))


def read_files(spark: SparkSession, folder: ArchiveFolder, files: Sequence[ArchivedFile]) -> DataFrame:
    """Return the records of files, which may still lie in staging."""
    by_base: dict[Path, list[str]] = {}
    for file in files:
        place = place_of(folder, file)
        # Topic and day are the names of the two folders above.
        by_base.setdefault(place.parents[2], []).append(str(place))
    frame = spark.createDataFrame([], SCHEMA)
    for number, (base, paths) in enumerate(sorted(by_base.items())):
        read = spark.read.schema(SCHEMA).option("basePath", str(base)).parquet(*paths)
        frame = read if number == 0 else frame.unionByName(read)
    return frame


def describe_staged(spark: SparkSession, folder: ArchiveFolder, written: Path, name: str) -> Staged:
    """Read back what lies below a folder of staging; `name` begins the files' final names."""
    if not written.exists():
        return Staged([], {})
    rows = (
        spark.read.schema(SCHEMA)
        .option("basePath", str(written))
        .parquet(str(written))
        .groupBy(F.col("_metadata.file_path").alias("file"), "topic", "day", "partition")
        .agg(F.count("*").alias("rows"), F.min("offset").alias("low"), F.max("offset").alias("high"))
        .collect()
    )
    by_file: dict[str, list[Any]] = {}
    seen: dict[Partition, tuple[int, int, int]] = {}
    for row in rows:
        by_file.setdefault(row.file, []).append(row)
        key = (row.topic, row.partition)
        low, high, count = seen.get(key, (row.low, row.high, 0))
        seen[key] = (min(low, row.low), max(high, row.high), count + row.rows)
    files = []
    for number, (address, parts) in enumerate(sorted(by_file.items(), key=lambda item: _order(item[1]))):
        path = _local(address)
        topic, day = parts[0].topic, _day(parts[0].day)
        files.append(
            ArchivedFile(
                staged=path.relative_to(folder.staging).as_posix(),
                path=f"topic={topic}/day={day}/{name}-{number:05}.parquet",
                topic=topic,
                day=day,
                rows=sum(part.rows for part in parts),
                size=path.stat().st_size,
                first=min((part.partition, part.low) for part in parts),
                partitions={part.partition: part.rows for part in sorted(parts, key=lambda part: part.partition)},
            )
        )
    return Staged(files, seen)


def _order(parts: list[Any]) -> tuple[str, str, tuple[int, int]]:
    return parts[0].topic, _day(parts[0].day), min((part.partition, part.low) for part in parts)


def _day(value: date) -> str:
    return value.isoformat()


def _local(address: str) -> Path:
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(address).path))
