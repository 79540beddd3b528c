"""Records per key in windows of time, with a watermark: each window once, when it can no longer change, as JSON."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.run import PipelineRun
from raftka.pipeline.settings import PipelineSettings, parse_duration


class Settings(PipelineSettings, frozen=True, kw_only=True):
    """Keys of its own.

    Attributes:
        to: The topic for the counts.
        window: Length of a window, by the records' timestamps.
        watermark: How late a record may come and still count.
    """

    to: str
    window: str = "1m"
    watermark: str = "10s"

    def check(self) -> None:
        """Compare the values with each other."""
        super().check()
        parse_duration(self.window, "window")
        parse_duration(self.watermark, "watermark")
        self.refuse_own_source("to", self.to)


def counts(records: DataFrame, window: float, watermark: float) -> DataFrame:
    """Return how many records each key has in each window; lengths are in seconds."""
    return (
        records.withWatermark("timestamp", f"{watermark} seconds")
        .groupBy(F.window("timestamp", f"{window} seconds"), F.col("key").cast("string").alias("key"))
        .count()
        .select("key", F.col("window.start").alias("start"), F.col("window.end").alias("end"), "count")
    )


def as_records(counted: DataFrame) -> DataFrame:
    """Return counts as records of a topic."""
    return counted.select("key", F.to_json(F.struct("key", "start", "end", "count")).alias("value"))


def build(run: PipelineRun[Settings]) -> Any:
    """Return the query."""
    settings = run.settings
    counted = counts(run.read(), parse_duration(settings.window), parse_duration(settings.watermark))
    return run.to_topic(as_records(counted), settings.to).outputMode("append")
