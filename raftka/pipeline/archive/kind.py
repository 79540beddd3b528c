"""The pipeline `archive`: topics to Parquet, every offset exactly once."""

import contextlib
import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from raftka import kafka_client, kafka_offsets
from raftka.pipeline.archive import commits
from raftka.pipeline.archive.batch_offsets import checkpoint_id, offset_ranges
from raftka.pipeline.archive.compaction import compact
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.frames import SCHEMA, archived, dead_letters
from raftka.pipeline.archive.manifest import Manifest, Partition, load_manifest, refuse_overlap
from raftka.pipeline.archive.reading import describe_staged
from raftka.pipeline.archive.records import BatchCommit
from raftka.pipeline.archive.settings import Settings
from raftka.pipeline.errors import FolderBusyError, PipelineError
from raftka.pipeline.progress_outputs import ensure_topic
from raftka.pipeline.run import PipelineRun

__all__ = ["Settings", "build"]

# What Spark's Kafka source takes for: from the first record that is there, and from the next one.
_SPARK_OFFSETS = {"earliest": -2, "latest": -1}


def build(run: PipelineRun[Settings]) -> Any:
    """Return the query."""
    settings = run.settings
    if settings.json_schema is not None:
        check_schema(run.spark, settings.json_schema)
    folder = ArchiveFolder.create(settings.to or run.folder / "archive")
    run.resources.enter_context(folder.written())
    commits.settle_batches(folder)
    manifest = load_manifest(folder)
    if settings.dead_letter_topic is not None:
        ensure_topic(settings.brokers, settings.dead_letter_topic)
    begin = None
    if manifest.ranges and not (run.checkpoint / "metadata").exists():
        # The checkpoint is lost, or of a former version: the archive itself knows where it ends.
        begin = starting_offsets(settings, manifest)
    return run.read(starting_offsets=begin).writeStream.foreachBatch(BatchWriter(run, folder, manifest.ends()))


class BatchWriter:
    """Makes each batch a part of the archive, once."""

    def __init__(self, run: PipelineRun[Settings], folder: ArchiveFolder, ends: dict[Partition, int]) -> None:
        self._run = run
        self._folder = folder
        self._ends = ends

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch; Spark calls again with the same records until we have returned and it has noted that."""
        checkpoint = checkpoint_id(self._run.checkpoint)
        record = commits.find_batch(self._folder, checkpoint, batch)
        if record is None:
            record = self._write(frame, checkpoint, batch)
            refuse_overlap(self._ends, record.ranges)
            commits.commit(self._folder, record)
            self._ends |= {(each.topic, each.partition): each.end for each in record.ranges}
        commits.settle(self._folder, record)
        every = self._run.settings.compact_batches
        if every is not None and (batch + 1) % every == 0:
            # Whoever joins files by hand does the same, and whoever verifies them needs all of them: there is time.
            with contextlib.suppress(FolderBusyError):
                compact(frame.sparkSession, self._folder, self._run.settings.target_bytes)

    def _write(self, frame: DataFrame, checkpoint: str, batch: int) -> BatchCommit:
        settings, spark = self._run.settings, frame.sparkSession
        staging = commits.staging_of_batch(self._folder, checkpoint, batch)
        archived(frame).write.partitionBy("topic", "day").parquet(str(staging))
        staged = describe_staged(spark, self._folder, staging, staging.name)
        ranges = offset_ranges(self._run.checkpoint, batch, staged.seen, is_gapless=settings.fail_on_data_loss)
        dead = 0
        if settings.json_schema is not None and staged.files:
            # From the files, not from the brokers once more.
            rows = spark.read.schema(SCHEMA).option("basePath", str(staging)).parquet(str(staging))
            letters = dead_letters(rows, settings.json_schema).cache()
            try:
                dead = letters.count()
                if dead:
                    sink = letters.write.format("kafka").options(**self._run.kafka_options())
                    sink.option("topic", settings.dead_letter_topic).save()
            finally:
                letters.unpersist()
        return BatchCommit(checkpoint=checkpoint, batch=batch, files=staged.files, ranges=ranges, dead_letters=dead)


def check_schema(spark: SparkSession, schema: str) -> None:
    """Refuse a schema that Spark does not understand.

    Raises:
        PipelineError: Such a schema.
    """
    from pyspark.errors import PySparkException

    try:
        spark.createDataFrame([], schema)
    except PySparkException as error:
        reason = str(error).splitlines()[0]
        raise PipelineError(
            f"json.schema = {schema}: no columns in DDL, as in id BIGINT, name STRING: {reason}"
        ) from None


def starting_offsets(settings: Settings, manifest: Manifest) -> str:
    """Return where a query without checkpoint goes on, as Spark's Kafka source takes it.

    Raises:
        PipelineError: The archive has more of a partition than the log: it is of a former topic of that name.
        KafkaClientError: The brokers do not tell.
    """
    cluster = kafka_client.read_cluster(settings.brokers)
    names = settings.topics or [name for name in cluster.topics if settings.matches(name)]
    partitions = [(name, info.partition) for name in names for info in cluster.topic(name)]
    ends = manifest.ends()
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
                f" {log_ends[topic, partition] - 1}: the topic was made anew, and needs another folder (`to`)"
            )
        found.setdefault(topic, {})[str(partition)] = end
    return json.dumps(found)
