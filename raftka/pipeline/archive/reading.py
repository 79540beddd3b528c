"""The files that count, as DataFrames."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.frames import SCHEMA
from raftka.pipeline.archive.manifest import load_manifest, place_of
from raftka.pipeline.archive.records import ArchivedFile
from raftka.pipeline.archive.settings import NO_NAME
from raftka.pipeline.errors import PipelineError

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
        by_base.setdefault(place.parents[2], []).append(glob_of(place))
    frame = spark.createDataFrame([], SCHEMA)
    for number, (base, paths) in enumerate(sorted(by_base.items())):
        read = spark.read.schema(SCHEMA).option("basePath", str(base)).parquet(*paths)
        frame = read if number == 0 else frame.unionByName(read)
    return frame


def spark_errors() -> tuple[type[Exception], ...]:
    """Return what Spark raises: PySpark translates some of the JVM's exceptions, and leaves the others to py4j."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JJavaError)


def unreadable(spark: SparkSession, folder: ArchiveFolder, files: Sequence[ArchivedFile]) -> list[ArchivedFile]:
    """Return those files of which not every column can be read; halves are tried until it is clear which they are."""
    try:
        read_files(spark, folder, files).agg(F.bit_xor(F.xxhash64("*"))).collect()
    except spark_errors():
        if len(files) <= 1:
            return list(files)
        half = len(files) // 2
        return unreadable(spark, folder, files[:half]) + unreadable(spark, folder, files[half:])
    return []


def glob_of(path: Path) -> str:
    """Return a path as Spark reads it, for which it is a pattern: `[` and the like are meant as they are."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", str(path))


def describe_staged(spark: SparkSession, folder: ArchiveFolder, written: Path, name: str) -> Staged:
    """Read back what lies below a folder of staging; `name` begins the files' final names."""
    if not written.exists():
        return Staged([], {})
    rows = (
        spark.read.schema(SCHEMA)
        .option("basePath", str(written))
        .parquet(glob_of(written))
        # As text: Python's dates end with the year 9999, and timestamps of Kafka do not.
        .groupBy(
            F.col("_metadata.file_path").alias("file"), "topic", F.col("day").cast("string").alias("day"), "partition"
        )
        .agg(F.count("*").alias("rows"), F.min("offset").alias("low"), F.max("offset").alias("high"))
        .collect()
    )
    if any(row.topic is None for row in rows):
        raise PipelineError(f"a topic named {NO_NAME} cannot be archived: Spark takes it for none")
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
        topic, day = parts[0].topic, parts[0].day
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
    return parts[0].topic, parts[0].day, min((part.partition, part.low) for part in parts)


def _local(address: str) -> Path:
    from urllib.parse import unquote, urlsplit

    return Path(unquote(urlsplit(address).path))
