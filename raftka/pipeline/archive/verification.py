"""`raftka archive verify`: every offset of an archive against the log."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from raftka import kafka_client, kafka_offsets
from raftka.pipeline.archive.blocks import BLOCK_OFFSETS, Block, BlockSum, Span, common, differing, never_read, spans
from raftka.pipeline.archive.findings import (
    Difference,
    Fault,
    FaultKind,
    PartitionFinding,
    Tally,
    Verification,
    conclude,
)
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.frames import crc32c_of
from raftka.pipeline.archive.manifest import Manifest, load_manifest, place_of, unknown_files
from raftka.pipeline.archive.reading import read_files
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.source_options import source_options

Partition = tuple[str, int]
_NO_CRC = -1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is verified.

    Attributes:
        brokers: Where the log is.
        topics: None: all that the archive has.
        begin: First offset, of every partition; None: where the archive begins.
        end: The offset behind the last; None: where the archive ends.
        isolation_level: With which the archive was written.
    """

    brokers: str
    topics: tuple[str, ...] | None = None
    begin: int | None = None
    end: int | None = None
    isolation_level: str = "read_uncommitted"


def verify(spark: SparkSession, folder: ArchiveFolder, wanted: Wanted) -> Verification:
    """Compare an archive with the log.

    Raises:
        PipelineError: The archive has no such topic, cannot be read, or is being compacted for long.
        KafkaClientError: The brokers do not answer, or the topic is gone.
    """
    with folder.kept():
        return _verify(spark, folder, wanted)


def _verify(spark: SparkSession, folder: ArchiveFolder, wanted: Wanted) -> Verification:
    begun = time.monotonic()
    manifest = load_manifest(folder)
    topics = sorted(manifest.topics if wanted.topics is None else wanted.topics)
    if strange := sorted(set(topics) - set(manifest.topics)):
        raise PipelineError(
            f"{folder.path} has nothing of topic {strange[0]} (it has {', '.join(manifest.topics) or 'none'})"
        )
    faults = []
    if unknown := len(unknown_files(folder, manifest)):
        faults.append(Fault(kind=FaultKind.FILES, count=unknown))
    partitions: list[PartitionFinding] = []
    for topic in topics:
        gone = _gone(folder, manifest, topic)
        if gone:
            faults.append(Fault(kind=FaultKind.FILES, count=gone))
        partitions += _TopicVerification(spark, folder, manifest, topic, wanted).findings()
    return Verification(partitions=partitions, faults=faults, seconds=time.monotonic() - begun)


def _gone(folder: ArchiveFolder, manifest: Manifest, topic: str) -> int:
    gone = 0
    for file in manifest.files_of(topic):
        try:
            place_of(folder, file)
        except PipelineError:
            gone += 1
    return gone


class _TopicVerification:
    """One topic's."""

    def __init__(
        self, spark: SparkSession, folder: ArchiveFolder, manifest: Manifest, topic: str, wanted: Wanted
    ) -> None:
        self._spark = spark
        self._manifest = manifest
        self._topic = topic
        self._wanted = wanted
        self._partitions = sorted(each for each in manifest.ranges if each[0] == topic)
        existing = {(topic, info.partition) for info in kafka_client.read_cluster(wanted.brokers).topic(topic)}
        if lost := [each for each in self._partitions if each not in existing]:
            raise PipelineError(f"topic {topic} has no partition {lost[0][1]}, and the archive has")
        self._begins = kafka_offsets.first_offsets(wanted.brokers, self._partitions)
        self._ends = kafka_offsets.end_offsets(wanted.brokers, self._partitions)
        self._spans = {each: self._span(each) for each in self._partitions}
        files = [file for file in manifest.files_of(topic) if _is_there(folder, file)]
        rows = read_files(spark, folder, files)
        self._archive = (
            rows.where(_within(self._spans))
            .select("partition", "offset", "value_crc32c", "value")
            .withColumn("actual", crc32c_of(F.col("value")))
            .withColumn("size", F.coalesce(F.length("value"), F.lit(0)))
            .drop("value")
            .withColumn("damaged", ~F.col("value_crc32c").eqNullSafe(F.col("actual")))
            .withColumn("expired", F.col("offset") < self._by_partition(self._begins))
        )

    def findings(self) -> list[PartitionFinding]:
        """Return what comes of each partition."""
        archive, counts = self._sum_archive()
        log = self._sum_log(self._log_spans(self._spans))
        differences = self._differences(differing(archive, log))
        is_compacted = "compact" in kafka_client.read_topic_config(self._wanted.brokers, self._topic).get(
            "cleanup.policy", ""
        )
        found = []
        for partition in self._partitions:
            span, begin = self._spans[partition], self._begins[partition]
            size, archived, expired, damaged, distinct = counts.get(partition, (0, 0, 0, 0, 0))
            tally = Tally(
                span=span,
                log_begin=begin,
                recorded=self._manifest.rows(partition) if self._is_all(partition) else None,
                archived=archived,
                expired=expired,
                expired_distinct=distinct,
                expired_damaged=damaged,
                holes=tuple(never_read(self._manifest.ranges[partition], common(span, Span(0, begin)))),
                bytes=size,
                differences=tuple(differences.get(partition, [])),
                is_compacted=is_compacted,
            )
            found.append(conclude(partition, tally))
        return found

    def _span(self, partition: Partition) -> Span:
        ranges = self._manifest.ranges[partition]
        held = Span(ranges[0].begin, ranges[-1].end)
        begin = held.begin if self._wanted.begin is None else self._wanted.begin
        return common(held, Span(begin, held.end if self._wanted.end is None else self._wanted.end))

    def _is_all(self, partition: Partition) -> bool:
        ranges = self._manifest.ranges[partition]
        return self._spans[partition] == Span(ranges[0].begin, ranges[-1].end)

    def _by_partition(self, offsets: Mapping[Partition, int]) -> Any:
        column = F.lit(None).cast("long")
        for (_, partition), offset in offsets.items():
            column = F.when(F.col("partition") == partition, F.lit(offset)).otherwise(column)
        return column

    def _sum_archive(self) -> tuple[dict[Block, BlockSum], dict[Partition, tuple[int, int, int, int, int]]]:
        """Return the sums of what can be compared by block; and size, rows, expired rows, damaged, distinct of all."""
        by_block = (
            self._archive.groupBy("partition", _block(), "expired")
            .agg(
                F.count("*").alias("rows"),
                F.bit_xor(_hash("value_crc32c")).alias("digest"),
                F.count_if("damaged").alias("damaged"),
                F.sum("size").alias("size"),
            )
            .collect()
        )
        sums: dict[Block, BlockSum] = {}
        counts: dict[Partition, list[int]] = {}
        for row in by_block:
            partition = (self._topic, row.partition)
            count = counts.setdefault(partition, [0, 0, 0, 0, 0])
            count[0] += row.size
            count[1] += row.rows
            if row.expired:
                count[2] += row.rows
                count[3] += row.damaged
            else:
                sums[Block(partition, row.block)] = BlockSum(row.rows, row.digest, row.damaged)
        if any(count[2] for count in counts.values()):
            distinct = (
                self._archive.where("expired").groupBy("partition").agg(F.count_distinct("offset").alias("offsets"))
            )
            for row in distinct.collect():
                counts[self._topic, row.partition][4] = row.offsets
        return sums, {key: (a, b, c, d, e) for key, (a, b, c, d, e) in counts.items()}

    def _log_spans(self, spans_wanted: Mapping[Partition, Span]) -> dict[Partition, Span]:
        """Return what the log has of these spans, and of what is verified."""
        found = {}
        for partition, span in spans_wanted.items():
            held = Span(self._begins[partition], self._ends[partition])
            found[partition] = common(common(span, held), self._spans[partition])
        return {partition: span for partition, span in found.items() if span.offsets}

    def _log(self, wanted: Mapping[Partition, Span]) -> DataFrame:
        def offsets(values: Iterable[tuple[Partition, int]]) -> str:
            return json.dumps({self._topic: {str(partition): offset for (_, partition), offset in values}})

        return (
            self._spark.read.format("kafka")
            .options(**source_options(self._wanted.brokers))
            .option("kafka.isolation.level", self._wanted.isolation_level)
            .option("assign", json.dumps({self._topic: [partition for _, partition in wanted]}))
            .option("startingOffsets", offsets((key, span.begin) for key, span in wanted.items()))
            .option("endingOffsets", offsets((key, span.end) for key, span in wanted.items()))
            .load()
            .select("partition", "offset", crc32c_of(F.col("value")).alias("crc"))
        )

    def _sum_log(self, wanted: Mapping[Partition, Span]) -> dict[Block, BlockSum]:
        if not wanted:
            return {}
        by_block = (
            self._log(wanted)
            .groupBy("partition", _block())
            .agg(F.count("*").alias("rows"), F.bit_xor(_hash("crc")).alias("digest"))
            .collect()
        )
        return {Block((self._topic, row.partition), row.block): BlockSum(row.rows, row.digest) for row in by_block}

    def _differences(self, blocks: list[Block]) -> dict[Partition, list[Difference]]:
        """Compare record by record, from the first to the last block that differs in each partition."""
        if not blocks:
            return {}
        looked_at = spans(blocks)
        archive = (
            self._archive.where(~F.col("expired") & _within(looked_at))
            .groupBy("partition", "offset")
            .agg(
                F.count("*").alias("rows"),
                F.first("value_crc32c").alias("stored"),
                F.bool_or("damaged").alias("damaged"),
            )
        )
        in_log = self._log_spans(looked_at)
        log = (
            self._log(in_log) if in_log else self._spark.createDataFrame([], "partition INT, offset BIGINT, crc BIGINT")
        )
        joined = archive.join(log.withColumn("is_there", F.lit(True)), ["partition", "offset"], "full_outer")
        kind = (
            F.when(F.col("rows").isNull(), FaultKind.MISSING.value)
            .when(F.col("rows") > 1, FaultKind.DUPLICATED.value)
            .when(F.col("damaged"), FaultKind.DAMAGED.value)
            .when(F.col("is_there").isNull(), FaultKind.SURPLUS.value)
            .when(~F.col("stored").eqNullSafe(F.col("crc")), FaultKind.DIFFERENT.value)
        )
        told = (
            joined.withColumn("kind", kind)
            .where("kind IS NOT NULL")
            .groupBy("partition", "kind")
            .agg(
                F.count("*").alias("offsets"),
                F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
                F.min("offset").alias("first"),
                F.max("offset").alias("last"),
            )
            .collect()
        )
        found: dict[Partition, list[Difference]] = {}
        for row in sorted(told, key=lambda row: (row.partition, row.first, row.kind)):
            difference = Difference(
                kind=FaultKind(row.kind), offsets=row.offsets, rows=row.rows, first=row.first, last=row.last
            )
            found.setdefault((self._topic, row.partition), []).append(difference)
        return found


def _is_there(folder: ArchiveFolder, file: Any) -> bool:
    try:
        place_of(folder, file)
    except PipelineError:
        return False
    return True


def _block() -> Any:
    return F.floor(F.col("offset") / BLOCK_OFFSETS).alias("block")


def _hash(crc: str) -> Any:
    # Spark's hash leaves nulls out; no CRC is negative.
    return F.xxhash64("offset", F.coalesce(F.col(crc), F.lit(_NO_CRC).cast("long")))


def _within(wanted: Mapping[Partition, Span]) -> Any:
    inside = F.lit(False)
    for (_, partition), span in wanted.items():
        inside |= (F.col("partition") == partition) & (F.col("offset") >= span.begin) & (F.col("offset") < span.end)
    return inside
