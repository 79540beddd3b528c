"""`raftka archive verify`: every offset of an archive against the log."""

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from raftka.kafka import client as kafka_client
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.client import ClusterInfo
from raftka.pipeline.archive.blocks import BLOCK_OFFSETS, Block, BlockSum, Span, common, differing, spans
from raftka.pipeline.archive.findings import (
    Difference,
    Fault,
    FaultKind,
    PartitionFinding,
    Tally,
    Verification,
    conclude,
    unrecorded,
)
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.frames import crc32c_of
from raftka.pipeline.archive.gap_search import explained
from raftka.pipeline.archive.gaps import Told
from raftka.pipeline.archive.log_pieces import LogPieces
from raftka.pipeline.archive.manifest import Manifest, former_topics, load_manifest, place_of, unknown_files
from raftka.pipeline.archive.reading import read_files, spark_errors, unreadable
from raftka.pipeline.archive.records import ArchivedFile
from raftka.pipeline.archive.scope import Scope, refuse_inverted, refuse_nowhere, scope
from raftka.pipeline.archive.superseded import with_compacted
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.source_options import source_options
from raftka.pipeline.topic_identity import known_ids

Partition = tuple[str, int]
_NO_CRC = -1
# delete.retention.ms of a topic whose brokers do not tell it.
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is verified.

    Attributes:
        brokers: Where the log is.
        topics: None: all that the archive has.
        begin: First offset, of every partition; None: where the archive was to begin.
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
        PipelineError: The archive has no such topic, or nothing; the range is empty or above all that there is; records
            cannot be read; files are being compacted for long.
        KafkaClientError: The brokers do not answer, or the topic is gone.
    """
    with folder.kept():
        return _verify(spark, folder, wanted)


def _verify(spark: SparkSession, folder: ArchiveFolder, wanted: Wanted) -> Verification:
    begun = time.monotonic()
    refuse_inverted(wanted.begin, wanted.end)
    manifest = load_manifest(folder)
    cluster = kafka_client.read_cluster(wanted.brokers)
    topics = _topics(folder, manifest, cluster, wanted)
    # What another log has says nothing of these: they are not compared.
    former = former_topics(manifest.known, known_ids(wanted.brokers, topics))
    faults = [
        Fault(kind=FaultKind.FORMER, count=1, why=f"{why}: the archive has the former one") for why in former.values()
    ]
    looked_at = [
        _TopicVerification(spark, folder, manifest, cluster, topic, wanted) for topic in topics if topic not in former
    ]
    if looked_at:
        refuse_nowhere(wanted.begin, wanted.end, [each for topic in looked_at for each in topic.scopes.values()])
    if unknown := len(unknown_files(folder, manifest)):
        faults.append(Fault(kind=FaultKind.FILES, count=unknown))
    partitions: list[PartitionFinding] = []
    for topic in looked_at:
        if topic.gone:
            faults.append(Fault(kind=FaultKind.FILES, count=topic.gone))
        found, bad = topic.findings()
        partitions += found
        faults += [Fault(kind=FaultKind.UNREADABLE, count=1, path=file.path) for file in bad]
    return Verification(partitions=partitions, faults=faults, seconds=time.monotonic() - begun)


def _topics(folder: ArchiveFolder, manifest: Manifest, cluster: ClusterInfo, wanted: Wanted) -> list[str]:
    held = manifest.topics
    if not held:
        raise PipelineError(f"{folder.path} has nothing yet, by its commit records")
    if wanted.topics is None:
        # Those that the pipeline reads, and has nothing of, too: unless they are gone, there may be something.
        return sorted({*held, *(name for name in manifest.known if name in cluster.topics)})
    if strange := sorted(set(wanted.topics) - {*held, *manifest.known}):
        raise PipelineError(f"{folder.path} has nothing of topic {strange[0]} (it has {', '.join(held)})")
    return sorted(set(wanted.topics))


class _TopicVerification:
    """One topic's.

    Attributes:
        scopes: What is verified, by partition.
        gone: How many files there are no longer.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: ArchiveFolder,
        manifest: Manifest,
        cluster: ClusterInfo,
        topic: str,
        wanted: Wanted,
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._manifest = manifest
        self._topic = topic
        self._wanted = wanted
        existing = sorted((topic, info.partition) for info in cluster.topic(topic))
        if lost := sorted(each for each in manifest.ranges if each[0] == topic and each not in existing):
            raise PipelineError(f"topic {topic} has no partition {lost[0][1]}, and the archive has")
        self._begins = kafka_offsets.first_offsets(wanted.brokers, existing)
        self._ends = kafka_offsets.end_offsets(wanted.brokers, existing)
        begins = manifest.begins()
        scopes = {each: self._scope(each, begins.get(each)) for each in existing}
        # A partition without a record is no part of anything, unless it was left out.
        self.scopes = {
            key: each for key, each in scopes.items() if each.is_archived or not each.is_empty or each.left_out
        }
        self._spans = {key: each.span for key, each in self.scopes.items()}
        files = manifest.files_of(topic)
        self._files = [file for file in files if _is_there(folder, file)]
        self.gone = len(files) - len(self._files)

    def _rows(self, files: list[ArchivedFile]) -> DataFrame:
        return (
            read_files(self._spark, self._folder, files)
            .where(_within(self._spans))
            .withColumn("rest", _rest("timestamp_type"))
            .select("partition", "offset", "key", "timestamp", "value_crc32c", "value", "rest")
            .withColumn("actual", crc32c_of(F.col("value")))
            .withColumn("size", F.coalesce(F.length("value"), F.lit(0)))
            .withColumn("is_tombstone", F.col("value").isNull())
            .drop("value")
            .withColumn("damaged", ~F.col("value_crc32c").eqNullSafe(F.col("actual")))
            .withColumn("expired", F.col("offset") < self._by_partition(self._begins))
        )

    def findings(self) -> tuple[list[PartitionFinding], list[ArchivedFile]]:
        """Return what comes of each partition, and the files that cannot be read: the others are judged."""
        try:
            return self._findings(self._files), []
        except spark_errors():
            bad = unreadable(self._spark, self._folder, self._files)
            if not bad:
                raise
        return self._findings([file for file in self._files if file not in bad]), bad

    def _findings(self, files: list[ArchivedFile]) -> list[PartitionFinding]:
        rows = self._rows(files)
        archive, counts = self._sum_archive(rows)
        log = self._sum_log(self._log_spans(self._spans))
        blocks = differing(archive, log)
        config = kafka_client.read_topic_config(self._wanted.brokers, self._topic)
        is_compacted = "compact" in config.get("cleanup.policy", "")
        found = self._compared(rows, blocks)
        if found is not None and is_compacted:
            kept_ms = int(config.get("delete.retention.ms", _DAY_MS))
            found = with_compacted(found, self._held(files, blocks), int(time.time() * 1000) - kept_ms)
        differences = self._differences(found)
        tallies = {}
        for partition, seen in self.scopes.items():
            size, archived, expired, damaged, distinct = counts.get(partition, (0, 0, 0, 0, 0))
            tallies[partition] = Tally(
                scope=seen,
                log_begin=self._begins[partition],
                recorded=self._manifest.rows(partition) if seen.is_all else None,
                archived=archived,
                expired=expired,
                expired_distinct=distinct,
                expired_damaged=damaged,
                bytes=size,
                differences=tuple(differences.get(partition, [])),
            )
        told = self._told(rows, blocks, tallies, is_compacted=is_compacted)
        return [
            conclude(partition, msgspec.structs.replace(tally, told=told.get(partition, ())))
            for partition, tally in tallies.items()
        ]

    def _told(
        self, rows: DataFrame, blocks: list[Block], tallies: Mapping[Partition, Tally], *, is_compacted: bool
    ) -> dict[Partition, tuple[Told, ...]]:
        """Return what the log says of offsets that neither side has."""
        wanted = self._log_spans({key: self._spans[key] for key, each in tallies.items() if unrecorded(each)})
        if not wanted:
            return {}
        records = rows.where(_within(wanted)).select("partition", "offset")
        # Where the sides differ, the log has more than the archive.
        if more := self._log_spans({key: span for key, span in spans(blocks).items() if key in wanted}):
            records = records.unionByName(self._log(more).select("partition", "offset"))
        with LogPieces(self._wanted.brokers, self._wanted.isolation_level) as log:
            return explained(records, wanted, log.read, is_compacted=is_compacted)

    def _scope(self, partition: Partition, begins: int | None) -> Scope:
        return scope(
            self._manifest.ranges.get(partition, []),
            begins,
            Span(self._begins[partition], self._ends[partition]),
            self._wanted.begin,
            self._wanted.end,
        )

    def _by_partition(self, offsets: Mapping[Partition, int]) -> Any:
        column = F.lit(None).cast("long")
        for (_, partition), offset in offsets.items():
            column = F.when(F.col("partition") == partition, F.lit(offset)).otherwise(column)
        return column

    def _sum_archive(
        self, rows: DataFrame
    ) -> tuple[dict[Block, BlockSum], dict[Partition, tuple[int, int, int, int, int]]]:
        """Return the sums of what can be compared by block; and size, rows, expired rows, damaged, distinct of all."""
        by_block = (
            rows.groupBy("partition", _block(), "expired")
            .agg(
                F.count("*").alias("rows"),
                F.bit_xor(_hash("value_crc32c", "rest")).alias("digest"),
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
            distinct = rows.where("expired").groupBy("partition").agg(F.count_distinct("offset").alias("offsets"))
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
        return self._read_log(wanted).select(
            "partition", "offset", crc32c_of(F.col("value")).alias("crc"), _rest("timestampType").alias("rest")
        )

    def _read_log(self, wanted: Mapping[Partition, Span]) -> DataFrame:
        def offsets(values: Iterable[tuple[Partition, int]]) -> str:
            return json.dumps({self._topic: {str(partition): offset for (_, partition), offset in values}})

        return (
            self._spark.read.format("kafka")
            .options(**source_options(self._wanted.brokers))
            .option("kafka.isolation.level", self._wanted.isolation_level)
            .option("includeHeaders", "true")
            .option("assign", json.dumps({self._topic: [partition for _, partition in wanted]}))
            .option("startingOffsets", offsets((key, span.begin) for key, span in wanted.items()))
            .option("endingOffsets", offsets((key, span.end) for key, span in wanted.items()))
            .load()
        )

    def _held(self, files: list[ArchivedFile], blocks: list[Block]) -> DataFrame:
        """Return partition, offset and key of all records that the archive has, and of the log's, up to its end of now.

        What has removed a record may have been written since the verification began, and lie behind the archive's end.
        """
        looked_at = spans(blocks)
        ends = kafka_offsets.end_offsets(self._wanted.brokers, sorted(looked_at))
        held = read_files(self._spark, self._folder, files).select("partition", "offset", "key")
        begins = {key: max(span.begin, self._begins[key]) for key, span in looked_at.items()}
        log = {key: Span(begin, ends[key]) for key, begin in begins.items() if begin < ends[key]}
        return held.unionByName(self._read_log(log).select("partition", "offset", "key")) if log else held

    def _sum_log(self, wanted: Mapping[Partition, Span]) -> dict[Block, BlockSum]:
        if not wanted:
            return {}
        by_block = (
            self._log(wanted)
            .groupBy("partition", _block())
            .agg(F.count("*").alias("rows"), F.bit_xor(_hash("crc", "rest")).alias("digest"))
            .collect()
        )
        return {Block((self._topic, row.partition), row.block): BlockSum(row.rows, row.digest) for row in by_block}

    def _compared(self, rows: DataFrame, blocks: list[Block]) -> DataFrame | None:
        """Compare record by record, from the first to the last block that differs in each partition.

        Returns:
            A row for each offset that differs, with its kind; None: no block differs.
        """
        if not blocks:
            return None
        looked_at = spans(blocks)
        archive = (
            rows.where(~F.col("expired") & _within(looked_at))
            .groupBy("partition", "offset")
            .agg(
                F.count("*").alias("rows"),
                F.first("value_crc32c").alias("stored"),
                F.first("rest").alias("stored_rest"),
                F.bool_or("damaged").alias("damaged"),
                F.first("key").alias("key"),
                F.first("timestamp").alias("timestamp"),
                F.first("is_tombstone").alias("is_tombstone"),
            )
        )
        in_log = self._log_spans(looked_at)
        none = "partition INT, offset BIGINT, crc BIGINT, rest BIGINT"
        log = self._log(in_log) if in_log else self._spark.createDataFrame([], none)
        joined = archive.join(log.withColumn("is_there", F.lit(True)), ["partition", "offset"], "full_outer")
        kind = (
            F.when(F.col("rows").isNull(), FaultKind.MISSING.value)
            .when(F.col("rows") > 1, FaultKind.DUPLICATED.value)
            .when(F.col("damaged"), FaultKind.DAMAGED.value)
            .when(F.col("is_there").isNull(), FaultKind.SURPLUS.value)
            .when(~F.col("stored").eqNullSafe(F.col("crc")), FaultKind.DIFFERENT.value)
            .when(F.col("stored_rest") != F.col("rest"), FaultKind.DIFFERENT.value)
        )
        return joined.withColumn("kind", kind).where("kind IS NOT NULL")

    def _differences(self, compared: DataFrame | None) -> dict[Partition, list[Difference]]:
        """Return what differs, summed up by partition and kind."""
        if compared is None:
            return {}
        told = (
            compared.groupBy("partition", "kind")
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


def _hash(crc: str, rest: str) -> Any:
    # Spark's hash leaves nulls out; no CRC is negative.
    return F.xxhash64("offset", F.coalesce(F.col(crc), F.lit(_NO_CRC).cast("long")), rest)


def _rest(timestamp_type: str) -> Any:
    """Return a hash of what a record has besides its value."""
    return F.xxhash64(F.col("key").isNull(), "key", "timestamp", timestamp_type, "headers")


def _within(wanted: Mapping[Partition, Span]) -> Any:
    inside = F.lit(False)
    for (_, partition), span in wanted.items():
        inside |= (F.col("partition") == partition) & (F.col("offset") >= span.begin) & (F.col("offset") < span.end)
    return inside
