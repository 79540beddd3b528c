"""Two topics of JSON objects with an `id`, joined where both sides come within a time; repetitions are left out."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.run import PipelineRun
from raftka.pipeline.settings import PipelineSettings, parse_duration


class Settings(PipelineSettings, frozen=True, kw_only=True):
    """Keys of its own.

    Attributes:
        to: The topic for what was joined.
        within: How long after the first side the second may come, by the records' timestamps.
        watermark: How late a record may come and still count.
    """

    to: str
    within: str = "10m"
    watermark: str = "1m"

    def check(self) -> None:
        """Compare the values with each other."""
        super().check()
        parse_duration(self.within, "within")
        parse_duration(self.watermark, "watermark")
        self.refuse_own_source("to", self.to)
        if len(self.topics) != 2:
            raise ValueError(f"topics: two are joined, and {len(self.topics)} are given")


def side(records: DataFrame, name: str, watermark: float) -> DataFrame:
    """Return the records of one side by id, each id once; what has no id is left out."""
    return (
        records.select(
            F.get_json_object(F.col("value").cast("string"), "$.id").alias("id"),
            F.col("value").cast("string").alias(name),
            F.col("timestamp").alias(f"{name}_time"),
        )
        .where(F.col("id").isNotNull())
        .withWatermark(f"{name}_time", f"{watermark} seconds")
        .dropDuplicatesWithinWatermark(["id"])
    )


def joined(first: DataFrame, second: DataFrame, within: float) -> DataFrame:
    """Return pairs of one id of which the second comes within so many seconds after the first."""
    latest = F.col("first_time") + F.expr(f"INTERVAL {within} SECONDS")
    in_time = (F.col("second_time") >= F.col("first_time")) & (F.col("second_time") <= latest)
    return first.join(
        second.withColumnRenamed("id", "second_id"), (F.col("id") == F.col("second_id")) & in_time
    ).select("id", "first", "second")


def build(run: PipelineRun[Settings]) -> Any:
    """Return the query."""
    settings = run.settings
    watermark = parse_duration(settings.watermark)
    first = side(run.read(settings.topics[0]), "first", watermark)
    second = side(run.read(settings.topics[1]), "second", watermark)
    pairs = joined(first, second, parse_duration(settings.within))
    rows = pairs.select(F.col("id").alias("key"), F.to_json(F.struct("id", "first", "second")).alias("value"))
    return run.to_topic(rows, settings.to).outputMode("append")
