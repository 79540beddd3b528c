"""Windows: figures of partitions, and of the whole cluster, over seconds."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.telemetry.figures import distribution, in_one_file, joined, kept, latency
from raftka.pipeline.telemetry.reports import PARTITION
from raftka.pipeline.telemetry.seconds import HISTOGRAMS, STATES, UNAVAILABLE

CLUSTER = "cluster"
_MINUTE = 60.0
_SUMMED = ("elections", "reports", "recovery_bytes")
_DIMENSIONS = {"topic": "string", "topic_id": "string", "partition": "int"}


def windows(rows: DataFrame) -> DataFrame:
    """Return the table of windows of these seconds: a row per partition, and one of all, which has no topic."""
    found = _figures(rows, PARTITION).unionByName(_figures(rows, ()))
    return in_one_file(found, "start", "topic", "topic_id", "partition")


def outages(seconds: dict[str, Column]) -> Column:
    """Return the spans of seconds that follow each other in one state, as (begin, end, state), by their begins.

    Args:
        seconds: By state, an array of seconds since 1970, ascending, each once.
    """
    return F.array_sort(F.concat(*(_spans(every, state) for state, every in seconds.items())))


def _spans(every: Column, state: str) -> Column:
    # Of neighbours by place: of an array of a whole day, asking whether it contains a second would take minutes.
    begins = F.filter(every, lambda at, place: ~F.get(every, place - 1).eqNullSafe(at - 1))
    lasts = F.filter(every, lambda at, place: ~F.get(every, place + 1).eqNullSafe(at + 1))

    def span(begin: Column, last: Column) -> Column:
        return F.struct(
            F.timestamp_seconds(begin).alias("begin"),
            F.timestamp_seconds(last + 1).alias("end"),
            F.lit(state).alias("state"),
        )

    return F.zip_with(begins, lasts, span)


def _figures(rows: DataFrame, dimensions: tuple[str, ...]) -> DataFrame:
    return rows.groupBy("start", "end", *dimensions).agg(*_gathered(dimensions)).select(*_columns(dimensions))


@kept
def _gathered(dimensions: tuple[str, ...]) -> list[Column]:
    counted = [F.count_if(F.col("state") == state).alias(f"{state}_seconds") for state in STATES]
    # Of the cluster several partitions have the same second.
    when = {state: F.collect_set(F.when(F.col("state") == state, F.unix_seconds("second"))) for state in UNAVAILABLE}
    return [
        # Not count_distinct, for which Spark makes a second table of all that the others gather.
        F.size(F.collect_set(F.struct(*PARTITION))).cast("bigint").alias("partitions"),
        # Of the cluster it would be one partition's.
        (
            F.max_by("leader", F.when(F.col("leader").isNotNull(), F.col("second")))
            if dimensions
            else F.lit(None).cast("int")
        ).alias("leader"),
        (F.max("term") if dimensions else F.lit(None).cast("bigint")).alias("term"),
        *counted,
        *(F.array_sort(found).alias(f"{state}_at") for state, found in when.items()),
        *(F.sum(name).alias(name) for name in _SUMMED),
        joined(F.col("lags.lag")).alias("replica_lags"),
        F.collect_list("commit_lag").alias("commit_lags"),
        *(joined(F.col(f"{name}_buckets")).alias(f"{name}_buckets") for name in HISTOGRAMS),
        *(F.max(f"{name}_max").alias(f"{name}_max") for name in HISTOGRAMS),
    ]


@kept
def _columns(dimensions: tuple[str, ...]) -> list[Column]:
    length = F.col("end").cast("double") - F.col("start").cast("double")
    names = [
        (F.col(name) if name in dimensions else F.lit(None).cast(kind)).alias(name)
        for name, kind in _DIMENSIONS.items()
    ]
    return [
        F.col("start"),
        F.col("end"),
        *names,
        *map(F.col, ("partitions", "leader", "term")),
        *distribution("replica_lag"),
        *distribution("commit_lag"),
        *(column for name in HISTOGRAMS for column in latency(name)),
        F.col("elections"),
        (F.col("elections") * _MINUTE / length).alias("elections_per_minute"),
        *(F.col(f"{state}_seconds") for state in STATES),
        (F.col("leaderless_seconds") + F.col("stalled_seconds")).alias("unavailable_seconds"),
        outages({state: F.col(f"{state}_at") for state in UNAVAILABLE}).alias("outages"),
        *map(F.col, _SUMMED[1:]),
    ]


def as_records(table: DataFrame) -> DataFrame:
    """Return windows as records of a topic: TOPIC-PARTITION, or `cluster`, with JSON."""
    name = F.concat_ws("-", "topic", "partition")
    key = F.when(F.col("topic").isNull(), CLUSTER).otherwise(name)
    return table.select(key.alias("key"), F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("value"))
