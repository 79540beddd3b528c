"""`raftka archive restore`: a range of an archived topic back into a topic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from raftka.counted import counted
from raftka.kafka import client as kafka_client
from raftka.kafka import offsets as kafka_offsets
from raftka.pipeline.archive.blocks import Span, never_read
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.frames import crc32c_of
from raftka.pipeline.archive.manifest import load_manifest
from raftka.pipeline.archive.reading import read_files, spark_errors
from raftka.pipeline.archive.records import OffsetRange
from raftka.pipeline.archive.replay import Replay
from raftka.pipeline.archive.scope import refuse_inverted
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.query_errors import query_error


@dataclass(frozen=True, slots=True)
class Restore:
    """What is restored, and to where.

    Attributes:
        topic: As it is called in the archive.
        to: The topic to write to: empty, or made with as many partitions, and kept forever.
        begin: First offset, of every partition.
        end: The offset behind the last; None: all.
        partitions: Of a topic that is made; None: as many as the archived one had, as far as the archive knows.
    """

    brokers: str
    topic: str
    to: str
    begin: int = 0
    end: int | None = None
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of it: records by partition, and offsets between them that no batch was asked to read."""

    records: dict[int, int]
    is_new_topic: bool
    never_read: dict[int, list[Span]]


def restore(spark: SparkSession, folder: ArchiveFolder, wanted: Restore) -> Restored:
    """Write the records of a range, each in its partition, in order, with key, value, headers and timestamp.

    Raises:
        PipelineError: The archive has no such topic or nothing of the range; records of it are missing or damaged; the
            target is not empty; or records did not arrive. Nothing is written but in the last case.
        KafkaClientError: The brokers do not answer.
    """
    with folder.kept():
        return _restore(spark, folder, wanted)


def _restore(spark: SparkSession, folder: ArchiveFolder, wanted: Restore) -> Restored:
    refuse_inverted(wanted.begin, wanted.end)
    manifest = load_manifest(folder)
    if wanted.topic not in manifest.topics:
        held = ", ".join(manifest.topics) or "none"
        raise PipelineError(f"{folder.path} has nothing of topic {wanted.topic} (it has {held})")
    ranges = {partition: each for (topic, partition), each in manifest.ranges.items() if topic == wanted.topic}
    partitions = _partitions(wanted, manifest.partitions_of(wanted.topic), 1 + max(ranges))
    is_new = _look_at_target(wanted, 1 + max(ranges))
    parts = {partition: touched(each, wanted.begin, wanted.end) for partition, each in ranges.items()}
    all_rows = read_files(spark, folder, manifest.files_of(wanted.topic))
    expected = _sound(all_rows, wanted, parts)
    if is_new:
        # Old records would be gone at once by the retention of a new topic.
        kafka_client.create_topic(wanted.brokers, wanted.to, partitions, None, {"retention.ms": "-1"})
    rows = all_rows.where(_wanted(wanted))
    ordered = rows.repartition(partitions, "partition").sortWithinPartitions("partition", "offset")
    try:
        ordered.select(
            "partition", "key", "value", F.unix_millis("timestamp").alias("milliseconds"), "headers"
        ).foreachPartition(Replay(wanted.brokers, wanted.to, {}))
    except spark_errors() as error:
        raise PipelineError(f"{query_error(str(error))}: topic {wanted.to} has a part, delete it first") from None
    _check(wanted, 1 + max(ranges), expected)
    begins = manifest.begins()
    holes = {
        partition: _never_read(each, begins.get((wanted.topic, partition)), wanted.begin)
        for partition, each in sorted(parts.items())
        if each
    }
    return Restored(dict(sorted(expected.items())), is_new, {key: each for key, each in holes.items() if each})


def touched(ranges: Sequence[OffsetRange], begin: int, end: int | None) -> list[OffsetRange]:
    """Return the ranges of batches that have offsets from `begin` to before `end`."""
    return [each for each in ranges if each.end > begin and (end is None or each.begin < end)]


def _never_read(ranges: Sequence[OffsetRange], begins: int | None, begin: int) -> list[Span]:
    """Return what of a range no batch has read, from where the pipeline began."""
    first = ranges[0].begin if begins is None else min(begins, ranges[0].begin)
    return never_read(ranges, Span(max(first, begin), ranges[-1].end))


def _partitions(wanted: Restore, known: int, needed: int) -> int:
    if wanted.partitions is not None and wanted.partitions < needed:
        raise PipelineError(f"{needed} partitions have records, and {wanted.partitions} are too few")
    return wanted.partitions or known


def _wanted(wanted: Restore) -> Column:
    inside = F.col("offset") >= wanted.begin
    return inside if wanted.end is None else inside & (F.col("offset") < wanted.end)


def _sound(rows: DataFrame, wanted: Restore, parts: Mapping[int, Sequence[OffsetRange]]) -> dict[int, int]:
    """Return how many records of the range each partition has, and refuse what is not what batches have committed.

    A commit record tells how many records its whole range has, so all of a batch that the range cuts is counted.
    """
    whole = F.lit(False)
    for partition, ranges in parts.items():
        if ranges:
            offset = F.col("offset")
            whole |= (F.col("partition") == partition) & (offset >= ranges[0].begin) & (offset < ranges[-1].end)
    damaged = ~F.col("value_crc32c").eqNullSafe(crc32c_of(F.col("value"))) & _wanted(wanted)
    found = {
        row.partition: row
        for row in rows.where(whole)
        .groupBy("partition")
        .agg(
            F.count("*").alias("rows"),
            F.count_distinct("offset").alias("offsets"),
            F.count_if(_wanted(wanted)).alias("wanted"),
            F.count_if(damaged).alias("damaged"),
            F.min(F.when(damaged, F.col("offset"))).alias("first"),
        )
        .collect()
    }
    for partition, ranges in sorted(parts.items()):
        refuse_unsound(f"{wanted.topic}-{partition}", ranges, found.get(partition))
    expected = {partition: row.wanted for partition, row in found.items() if row.wanted}
    if not expected:
        until = "on" if wanted.end is None else f"to {wanted.end - 1}"
        end = max((each[-1].end for each in parts.values() if each), default=None)
        raise PipelineError(
            f"the archive has no record of {wanted.topic} from offset {wanted.begin} {until}"
            + ("" if end is None else f" (it ends before {end})")
        )
    return expected


def refuse_unsound(where: str, ranges: Sequence[OffsetRange], found: Any) -> None:
    """Refuse a partition whose files do not have what commit records say, or values that are not what was archived.

    Raises:
        PipelineError: They do not; nothing has been written.
    """
    recorded = sum(each.rows for each in ranges)
    rows, offsets = (0, 0) if found is None else (found.rows, found.offsets)
    if (rows, offsets) != (recorded, recorded):
        raise PipelineError(
            f"{where}: the files have {rows:,} records with {offsets:,} offsets from {ranges[0].begin} to"
            f" {ranges[-1].end - 1}, and {recorded:,} were archived: nothing was restored, and `raftka archive verify`"
            " tells more"
        )
    if found is not None and found.damaged:
        raise PipelineError(
            f"{where}: {found.damaged:,} values do not have the CRC32C they were archived with, the first at offset"
            f" {found.first}: nothing was restored, and `raftka archive verify` tells more"
        )


def _look_at_target(wanted: Restore, partitions: int) -> bool:
    """Make sure that the target is empty and wide enough; return whether it has to be made."""
    cluster = kafka_client.read_cluster(wanted.brokers)
    if wanted.to not in cluster.topics:
        return True
    there = cluster.topic(wanted.to)
    if len(there) < partitions:
        raise PipelineError(f"topic {wanted.to} has {counted(len(there), 'partition')}, and needs {partitions}")
    held = [(wanted.to, info.partition) for info in there]
    first, end = (look_up(wanted.brokers, held) for look_up in (kafka_offsets.first_offsets, kafka_offsets.end_offsets))
    for partition in held:
        if end[partition] > first[partition]:
            raise PipelineError(
                f"topic {wanted.to} is not empty (partition {partition[1]} ends at {end[partition]}): restoring needs"
                " an empty topic, so that a part that broke off is not taken for the whole"
            )
    return False


def _check(wanted: Restore, partitions: int, expected: dict[int, int]) -> None:
    """Compare what the target has with what was written."""
    held = [(wanted.to, partition) for partition in range(partitions)]
    first = kafka_offsets.first_offsets(wanted.brokers, held)
    end = kafka_offsets.end_offsets(wanted.brokers, held)
    for key in held:
        if end[key] - first[key] != expected.get(key[1], 0):
            raise PipelineError(
                f"topic {wanted.to} has {end[key] - first[key]:,} records in partition {key[1]}, and"
                f" {expected.get(key[1], 0):,} were written: somebody else writes there, or its retention is short"
            )
