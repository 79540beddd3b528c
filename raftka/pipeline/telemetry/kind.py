"""The pipeline `telemetry`: what brokers tell of their replicas, in windows, to a topic and to Parquet."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.archive.batch_offsets import checkpoint_id
from raftka.pipeline.progress_outputs import ensure_topic
from raftka.pipeline.run import PipelineRun
from raftka.pipeline.telemetry.folder import REPLICATION, SECONDS, WINDOWS, BatchRecord, TablesFolder, batch_folder
from raftka.pipeline.telemetry.replication import replication
from raftka.pipeline.telemetry.reports import counted, gathered, judged, reports
from raftka.pipeline.telemetry.seconds import seconds, seconds_table
from raftka.pipeline.telemetry.settings import Settings
from raftka.pipeline.telemetry.windows import as_records, windows

__all__ = ["Settings", "build"]


def build(run: PipelineRun[Settings]) -> Any:
    """Return the query."""
    settings = run.settings
    folder = TablesFolder.create(settings.to or run.folder / "telemetry")
    run.resources.enter_context(folder.written())
    ensure_topic(settings.brokers, settings.windows_topic)
    found = reports(counted(judged(run.read())))
    views = gathered(found, settings.window_seconds, settings.watermark_seconds)
    return views.writeStream.outputMode("append").foreachBatch(BatchWriter(run, folder))


class BatchWriter:
    """Writes the windows that a batch has completed: to the topic at least once, to the tables once."""

    def __init__(self, run: PipelineRun[Settings], folder: TablesFolder) -> None:
        self._run = run
        self._folder = folder
        self._begin_ms: int | None = None

    def __call__(self, views: DataFrame, batch: int) -> None:
        """Write one batch; Spark calls again with the same rows until we have returned and it has noted that."""
        views.persist()
        try:
            # Always, and once: it is this that makes Spark keep the query's state, and counts what is left out.
            is_empty = views.count() == 0
            checkpoint = checkpoint_id(self._run.checkpoint)
            name = batch_folder(checkpoint, batch)
            if self._begin_ms is None:
                # A checkpoint that was lost reads all there is once more, and those windows are there.
                self._begin_ms = self._folder.end_of_others(checkpoint)
            if not is_empty and not self._folder.has(name):
                self._write(views.where(F.unix_millis("start") >= self._begin_ms), name, checkpoint, batch)
        finally:
            views.unpersist()

    def _write(self, views: DataFrame, name: str, checkpoint: str, batch: int) -> None:
        spark = views.sparkSession
        rows = seconds(views).persist()
        try:
            count = rows.count()
            if count == 0:
                return
            staging = self._folder.staging_of(name)
            seconds_table(rows).write.parquet(str(staging / SECONDS))
            windows(rows).write.parquet(str(staging / WINDOWS))
            replication(views).write.parquet(str(staging / REPLICATION))
        finally:
            rows.unpersist()
        table = spark.read.parquet(str(staging / WINDOWS))
        sink = as_records(table).write.format("kafka").options(**self._run.kafka_options())
        sink.option("topic", self._run.settings.windows_topic).save()
        replicated = spark.read.parquet(str(staging / REPLICATION)).count()
        told = table.agg(F.count("*").alias("windows"), F.max(F.unix_millis("end")).alias("end")).first()
        record = BatchRecord(
            checkpoint=checkpoint,
            batch=batch,
            windows=told.windows,
            seconds=count,
            replication=replicated,
            end_ms=told.end,
        )
        self._folder.commit(record)
