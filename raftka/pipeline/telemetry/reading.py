"""Rows out of the tables, for a plot."""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.telemetry.folder import SECONDS, TablesFolder
from raftka.pipeline.telemetry.plot_data import LEVELS, PERCENTILES, SECONDS_MAX, Second
from raftka.pipeline.telemetry.seconds import UNAVAILABLE


class Wanted(NamedTuple):
    """What is drawn.

    Attributes:
        topic: None: that of the partition with the most trouble.
        partition: None: the one with the most trouble.
        begin: First second since 1970; None: as early as there is something.
        end: The second behind the last; None: as late as there is something.
    """

    topic: str | None = None
    partition: int | None = None
    begin: float | None = None
    end: float | None = None


def read_table(spark: SparkSession, folder: TablesFolder, name: str) -> DataFrame:
    """Return one of the tables.

    Raises:
        PipelineError: Nothing has been written yet, or a record cannot be read.
    """
    places = folder.table(name)
    if not places:
        raise PipelineError(
            f"{folder.path} has no windows yet: a window is written once reports have come that are newer than it by"
            " the watermark"
        )
    return spark.read.parquet(*places)


def read_partition(spark: SparkSession, folder: TablesFolder, wanted: Wanted) -> tuple[str, list[Second]]:
    """Return a name of the partition that is wanted, and its seconds.

    Raises:
        PipelineError: There is none, or it has more seconds than a picture shows.
    """
    rows = read_table(spark, folder, SECONDS)
    if wanted.begin is not None:
        rows = rows.where(F.col("second") >= F.timestamp_seconds(F.lit(wanted.begin)))
    if wanted.end is not None:
        rows = rows.where(F.col("second") < F.timestamp_seconds(F.lit(wanted.end)))
    if wanted.topic is not None:
        rows = rows.where(F.col("topic") == wanted.topic)
    if wanted.partition is not None:
        rows = rows.where(F.col("partition") == wanted.partition)
    chosen = _most_troubled(rows)
    if chosen is None:
        where = "that time" if wanted.topic is None else f"{wanted.topic} in that time"
        raise PipelineError(f"{folder.path} has nothing of {where}")
    mine = rows.where(
        (F.col("topic") == chosen.topic)
        & (F.col("topic_id") == chosen.topic_id)
        & (F.col("partition") == chosen.partition)
    )
    # One more is enough to know that there are too many.
    mine = mine.withColumn("at", F.unix_seconds("second")).sort("at").limit(SECONDS_MAX + 1)
    found = [_second(row) for row in mine.collect()]
    return f"{chosen.topic}-{chosen.partition}", found


def _most_troubled(rows: DataFrame) -> Any:
    """Return the partition that was longest without a leader or stalled; then that with the most elections."""
    unavailable = F.count_if(F.col("state").isin(*UNAVAILABLE))
    ranked = rows.groupBy("topic", "topic_id", "partition").agg(
        unavailable.alias("unavailable"), F.sum("elections").alias("changes"), F.max("second").alias("newest")
    )
    return ranked.sort(F.desc("unavailable"), F.desc("changes"), F.desc("newest"), "topic", "partition").first()


def _second(row: Any) -> Second:
    columns = [f"{level}_{percentile}" for level in LEVELS for percentile in PERCENTILES]
    measured = {column: row[f"{column}_us"] for column in columns}
    return Second(
        at=row["at"],
        state=row.state,
        leader=row.leader,
        term=row.term,
        lags={lag.broker: lag.lag for lag in row.lags or []},
        commit_lag=row.commit_lag,
        latency_us={column: value for column, value in measured.items() if value is not None},
    )
