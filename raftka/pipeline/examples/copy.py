"""Records of topics, with a name or a pattern, to one topic: key, value, headers, and where they are from.

Spark's Kafka sink writes at least once: a batch that is repeated is written again. The headers tell a repetition.
"""

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.run import PipelineRun
from raftka.pipeline.settings import PipelineSettings


class Settings(PipelineSettings, frozen=True, kw_only=True):
    """Keys of its own.

    Attributes:
        to: The topic that is written.
        where: A condition in SQL on key, value, topic, partition, offset, timestamp, headers; others stay behind.
    """

    to: str
    where: str = "true"

    def check(self) -> None:
        """Compare the values with each other."""
        super().check()
        self.refuse_own_source("to", self.to)


def copied(records: DataFrame, where: str) -> DataFrame:
    """Return the records that are wanted, as the sink takes them."""

    def header(name: str, value: Column) -> Column:
        return F.struct(F.lit(f"raftka.{name}").alias("key"), value.cast("string").cast("binary").alias("value"))

    origin = F.array(*(header(name, F.col(name)) for name in ("topic", "partition", "offset")))
    none = F.array().cast("array<struct<key: string, value: binary>>")
    return records.where(where).select(
        "key", "value", F.concat(F.coalesce(F.col("headers"), none), origin).alias("headers")
    )


def build(run: PipelineRun[Settings]) -> Any:
    """Return the query."""
    return run.to_topic(copied(run.read(), run.settings.where), run.settings.to)
