"""Rows out of the tables, for a plot."""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.errors import PipelineError
from raftka.pipeline.telemetry.charts_data import LOG_COLUMNS, Measured, ReplicationSecond, WantedScope
from raftka.pipeline.telemetry.folder import REPLICATION, SECONDS, TablesFolder
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


# Batches of earlier versions have no such column.
_NEWER = "out_of_sync_max"


def read_table(spark: SparkSession, folder: TablesFolder, name: str) -> DataFrame:
    """Return one of the tables, with the columns of all its batches.

    Raises:
        PipelineError: Nothing has been written yet, or only by a version without that table, or a record cannot be
            read.
    """
    places = folder.table(name)
    if not places and folder.records():
        raise PipelineError(
            f"{folder.path} has no table of {name}: its batches are of an earlier version; the pipeline of this one"
            " writes it with its next windows"
        )
    if not places:
        raise PipelineError(
            f"{folder.path} has no windows yet: a window is written once reports have come that are newer than it by"
            " the watermark"
        )
    return spark.read.option("mergeSchema", "true").parquet(*places)


def read_partition(spark: SparkSession, folder: TablesFolder, wanted: Wanted) -> tuple[str, list[Second]]:
    """Return a name of the partition that is wanted, and its seconds.

    Raises:
        PipelineError: There is none, or it has more seconds than a picture shows.
    """
    rows = _between(read_table(spark, folder, SECONDS), wanted.begin, wanted.end)
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


def read_replication(spark: SparkSession, folder: TablesFolder, wanted: WantedScope) -> list[ReplicationSecond]:
    """Return the seconds of a scope; of a topic that was made anew, those of the newest.

    Raises:
        PipelineError: There are none, or more than a picture shows.
    """
    table = read_table(spark, folder, REPLICATION)
    if _NEWER not in table.columns:
        table = table.withColumn(_NEWER, F.lit(None).cast("int"))
    rows = _between(table, wanted.begin, wanted.end).where(F.col("scope") == wanted.scope)
    if wanted.topic is not None:
        rows = rows.where(F.col("topic") == wanted.topic)
        newest = rows.sort(F.desc("second")).select("topic_id").first()
        if newest is not None:
            rows = rows.where(F.col("topic_id") == newest.topic_id)
    if wanted.broker is not None:
        rows = rows.where(F.col("broker") == wanted.broker)
    found = rows.withColumn("at", F.unix_seconds("second")).sort("at").limit(SECONDS_MAX + 1).collect()
    if not found:
        raise PipelineError(f"{folder.path} has nothing of {wanted.title} in that time")
    return [_replication_second(row) for row in found]


def _between(rows: DataFrame, begin: float | None, end: float | None) -> DataFrame:
    if begin is not None:
        rows = rows.where(F.col("second") >= F.timestamp_seconds(F.lit(begin)))
    if end is not None:
        rows = rows.where(F.col("second") < F.timestamp_seconds(F.lit(end)))
    return rows


def _replication_second(row: Any) -> ReplicationSecond:
    def measured(each: Any, *names: str) -> Measured:
        return Measured(" ".join(each[name] for name in names), each.n, each.failed, each.p50_us, each.p99_us)

    return ReplicationSecond(
        at=row["at"],
        logs={column: row[column] for column in LOG_COLUMNS},
        written={f"{each.role} {each.kind}": each.entries for each in row.appended},
        calls=[measured(each, "level", "kind") for each in row.calls],
        applies=[measured(each, "kind") for each in row.applies],
        min_in_sync=row.min_in_sync,
        in_sync_min=row.in_sync_min,
        out_of_sync_max=row[_NEWER],
    )


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
