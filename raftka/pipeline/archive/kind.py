"""The pipeline `archive`: topics to Parquet, every offset exactly once."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from raftka.kafka import client as kafka_client
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.errors import KafkaClientError
from raftka.pipeline.archive import commits
from raftka.pipeline.archive.batch_offsets import (
    begins_known,
    checkpoint_id,
    completed_batch,
    offset_ranges,
    topics_of_batch,
)
from raftka.pipeline.archive.compaction import compact
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.frames import SCHEMA, archived, dead_letters, typed
from raftka.pipeline.archive.manifest import (
    Manifest,
    joined,
    load_manifest,
    refuse_former,
    refuse_overlap,
)
from raftka.pipeline.archive.reading import describe_staged, glob_of, spark_errors
from raftka.pipeline.archive.records import ArchivedTopic, BatchCommit, OffsetRange, batch_name
from raftka.pipeline.archive.settings import Settings
from raftka.pipeline.errors import FolderBusyError, PipelineError
from raftka.pipeline.progress_outputs import complain, ensure_topic
from raftka.pipeline.query_errors import query_error
from raftka.pipeline.run import PipelineRun
from raftka.pipeline.topic_identity import NO_ID, known_ids, topic_ids

__all__ = ["Settings", "build"]

# What Spark's Kafka source takes for: from the first record that is there, and from the next one.
_SPARK_OFFSETS = {"earliest": -2, "latest": -1}
# A failover is over by then, and what waits for the batch (`stop.seconds`) goes on waiting for so long.
_IDS_SECONDS = 60.0
_ASK_AGAIN_SECONDS = 1.0


def build(run: PipelineRun[Settings]) -> Any:
    """Return the query."""
    settings = run.settings
    if settings.json_schema is not None:
        check_schema(run.spark, settings.json_schema)
    folder = ArchiveFolder.create(settings.to or run.folder / "archive")
    run.resources.enter_context(folder.written())
    commits.settle_batches(folder)
    manifest = load_manifest(folder)
    refuse_gap(folder, manifest, run.checkpoint)
    names = settings.topics or [
        name for name in kafka_client.read_cluster(settings.brokers).topics if settings.matches(name)
    ]
    ids = known_ids(settings.brokers, names)
    refuse_former(folder.path, manifest.known, ids)
    if settings.dead_letter_topic is not None:
        ensure_topic(settings.brokers, settings.dead_letter_topic)
    begin = None
    if manifest.ranges and not (run.checkpoint / "metadata").exists():
        # The checkpoint is lost, or of a former version: the archive itself knows where it ends.
        begin = starting_offsets(settings, manifest)
    return run.read(starting_offsets=begin).writeStream.foreachBatch(BatchWriter(run, folder, manifest, ids))


class BatchWriter:
    """Makes each batch a part of the archive, once."""

    def __init__(
        self, run: PipelineRun[Settings], folder: ArchiveFolder, manifest: Manifest, ids: dict[str, str]
    ) -> None:
        self._run = run
        self._folder = folder
        self._ends = manifest.ends()
        self._known = manifest.known
        self._ids = ids
        self._has_complained = False

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch; Spark calls again with the same records until we have returned and it has noted that."""
        checkpoint = checkpoint_id(self._run.checkpoint)
        record = commits.find_batch(self._folder, checkpoint, batch)
        if record is None:
            record = self._write(frame, checkpoint, batch)
            refuse_overlap(self._ends, record.ranges)
            commits.commit(self._folder, record)
            self._ends |= {(each.topic, each.partition): each.end for each in record.ranges}
            self._known = record.topics
        commits.settle(self._folder, record)
        every = self._run.settings.compact_batches
        if every is not None and (batch + 1) % every == 0:
            self._compact(frame.sparkSession)

    def _compact(self, spark: SparkSession) -> None:
        damage: tuple[type[Exception], ...] = (PipelineError, *spark_errors())
        try:
            compact(spark, self._folder, self._run.settings.target_bytes)
        except FolderBusyError:
            # Whoever joins files by hand does the same, and whoever verifies them needs all of them: there is time.
            return
        except damage as error:
            # Old files that are damaged are no reason to leave new records out of the archive.
            if not self._has_complained:
                self._has_complained = True
                why = str(error) if isinstance(error, PipelineError) else query_error(str(error))
                complain(f"files are not joined, and archiving goes on: {why}")

    def _write(self, frame: DataFrame, checkpoint: str, batch: int) -> BatchCommit:
        settings, spark = self._run.settings, frame.sparkSession
        staging = commits.staging_of_batch(self._folder, checkpoint, batch)
        archived(frame).write.partitionBy("topic", "day").parquet(str(staging))
        staged = describe_staged(spark, self._folder, staging, staging.name)
        ranges = offset_ranges(self._run.checkpoint, batch, staged.seen, is_gapless=settings.fail_on_data_loss)
        # Behind the last read from the brokers, and before anything leaves staging: an id never comes back, so one that
        # is the same now was the same for every record that was read.
        self._check_ids(batch, ranges)
        dead = 0
        if settings.json_schema is not None and staged.files:
            # From the files, not from the brokers once more.
            rows = spark.read.schema(SCHEMA).option("basePath", str(staging)).parquet(glob_of(staging))
            letters = dead_letters(rows, settings.json_schema).cache()
            try:
                dead = letters.count()
                if dead:
                    sink = letters.write.format("kafka").options(**self._run.kafka_options())
                    sink.option("topic", settings.dead_letter_topic).save()
            finally:
                letters.unpersist()
        return BatchCommit(
            checkpoint=checkpoint,
            batch=batch,
            files=staged.files,
            ranges=ranges,
            dead_letters=dead,
            topics=self._topics(batch, ranges),
        )

    def _check_ids(self, batch: int, ranges: Iterable[OffsetRange]) -> None:
        """Compare the ids of the topics that a batch has read with those that are known; ids of new topics are added.

        Raises:
            PipelineError: One was deleted, or created again.
            KafkaClientError: The brokers do not tell for long.
        """
        read = {each.topic for each in ranges}
        # A topic of the pattern may have appeared that has no record yet.
        new = {name for name in topics_of_batch(self._run.checkpoint, batch) if name not in self._ids}
        found = self._asked_ids(sorted(read | new))
        if gone := sorted(name for name in read if name in self._ids and name not in found):
            raise PipelineError(f"topic {gone[0]} was deleted while batch {batch} was read: the batch is not archived")
        found = {name: each for name, each in found.items() if each != NO_ID}
        refuse_former(self._folder.path, self._known, found)
        # Of a topic that was empty until now the archive knows nothing, and this run does.
        refuse_former(self._folder.path, {name: ArchivedTopic(id=each) for name, each in self._ids.items()}, found)
        self._ids |= found

    def _asked_ids(self, names: list[str]) -> dict[str, str]:
        deadline = time.monotonic() + _IDS_SECONDS
        while True:
            try:
                return topic_ids(self._run.settings.brokers, names)
            except KafkaClientError:
                # Spark's own clients wait for the brokers, and so do we; but nothing is committed unasked.
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_ASK_AGAIN_SECONDS)

    def _topics(self, batch: int, ranges: Iterable[OffsetRange]) -> dict[str, ArchivedTopic]:
        """Return what is known of topics with this batch."""
        begins: dict[str, dict[int, int]] = {}
        for (topic, partition), at in begins_known(self._run.checkpoint, batch, ranges).items():
            begins.setdefault(topic, {})[partition] = at
        told = {name: ArchivedTopic(id=self._ids.get(name), begins=begins[name]) for name in begins}
        # Of a partition that the archive has already, this checkpoint began in the middle.
        return joined(self._known, told)


def refuse_gap(folder: ArchiveFolder, manifest: Manifest, checkpoint: Path) -> None:
    """Refuse to go on in the middle: where Spark has noted a batch as done, the archive has it.

    Raises:
        PipelineError: It does not.
    """
    last = completed_batch(checkpoint)
    if last is not None and batch_name(checkpoint_id(checkpoint), last) not in manifest.batches:
        raise PipelineError(
            f"{folder.path} has no record of batch {last}, with which {checkpoint} ended: the archive lies elsewhere"
            " (`to`) or was removed in part; a higher `version` goes on where this one ends, or begins anew"
        )


def check_schema(spark: SparkSession, schema: str) -> None:
    """Refuse a schema that Spark does not understand.

    Raises:
        PipelineError: Such a schema.
    """
    from pyspark.errors import PySparkException

    try:
        # As it is used: what is a schema elsewhere, as BIGINT is, need not be columns.
        names = typed(spark.createDataFrame([], "value BINARY"), schema).select("json.*").columns
    except PySparkException as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise PipelineError(
            f"json.schema = {schema}: no columns in DDL, as in id BIGINT, name STRING: {reason}"
        ) from None
    if len({name.lower() for name in names}) < len(names):
        raise PipelineError(f"json.schema = {schema}: a column is there twice")


def starting_offsets(settings: Settings, manifest: Manifest) -> str:
    """Return where a query without checkpoint goes on, as Spark's Kafka source takes it.

    A partition of which nothing was archived goes on as well: not where a new one would begin.

    Raises:
        PipelineError: The archive has more of a partition than the log: it is of a former topic of that name.
        KafkaClientError: The brokers do not tell.
    """
    cluster = kafka_client.read_cluster(settings.brokers)
    names = settings.topics or [name for name in cluster.topics if settings.matches(name)]
    partitions = [(name, info.partition) for name in names for info in cluster.topic(name)]
    ends = manifest.begins() | manifest.ends()
    log_ends = kafka_offsets.end_offsets(settings.brokers, [each for each in partitions if each in ends])
    new = [each for each in partitions if each not in ends]
    begins = dict.fromkeys(new, _SPARK_OFFSETS[settings.starting_offsets])
    if settings.starting_timestamp is not None:
        begins = kafka_offsets.offsets_at(settings.brokers, new, settings.starting_timestamp)
    found: dict[str, dict[str, int]] = {}
    for topic, partition in partitions:
        end = ends[topic, partition] if (topic, partition) in ends else begins[topic, partition]
        if end > log_ends.get((topic, partition), end):
            raise PipelineError(
                f"the archive has {topic}-{partition} up to offset {end - 1}, and the log ends at"
                f" {log_ends[topic, partition] - 1}: the topic was created again, and needs another folder (`to`)"
            )
        found.setdefault(topic, {})[str(partition)] = end
    return json.dumps(found)
