"""Logs, calls, applies and sets in sync in each second: of every partition, topic and broker, and of the cluster.

These are what Rama shows of its replication (rows R41 to R47): how long logs are and what of them is not applied, of
leaders and of followers in sync; how long calls of replicate and applies took, by kind of entry, and how many failed;
and min.insync.replicas beside the smallest set in sync.

A partition with one replica says nothing of sets in sync: its set is always 1, and would hide what others lack.

A follower is in sync if the leader of that second says so. In a second whose leader did not report, followers are not
told apart, and their logs are left out.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.telemetry.figures import (
    BUCKETS,
    PERCENTS,
    bucket_count,
    bucket_percentile,
    in_one_file,
    joined,
    kept,
)
from raftka.pipeline.telemetry.reports import KINDS, LEVELS, PARTITION

SCOPES = ("partition", "topic", "broker", "cluster")
ROLES = ("leader", "follower")
STATS = ("entries", "unapplied")
_MEASURED = ("appended", "calls", "applies")
_VIEW = (*PARTITION, "start", "end")
# What says which scope a row is of; the rest of them is null.
_SCOPE_COLUMNS = {"topic": "string", "topic_id": "string", "partition": "int", "broker": "int"}
_OF_SCOPE = {
    "partition": ("topic", "topic_id", "partition"),
    "topic": ("topic", "topic_id"),
    "broker": ("broker",),
    "cluster": (),
}


def replication(views: DataFrame) -> DataFrame:
    """Return the table of replication, from what windows see (`gathered`): a row per second and scope; a batch."""
    rows = _in_roles(_own_reports(views)).withColumn("scope", F.explode(F.array(*_scopes())))
    keys = [F.col(f"scope.{name}").alias(name) for name in ("scope", *_SCOPE_COLUMNS)]
    gathered = rows.groupBy(*keys, F.timestamp_seconds("second").alias("second")).agg(*_gathered())
    names = [name for name in gathered.columns if name not in _MEASURED]
    return in_one_file(gathered.select(*names, *_measurements()), "scope", *_SCOPE_COLUMNS, "second")


@kept
def _gathered() -> list[Column]:
    return [
        *(figure for role in ROLES for figure in _logs(role)),
        F.max("min_in_sync").alias("min_in_sync"),
        F.min("in_sync_min").alias("in_sync_min"),
        F.count_if(F.col("in_sync_min") < F.col("min_in_sync")).alias("under_min_in_sync"),
        F.max("out_of_sync").alias("out_of_sync_max"),
        F.count_if(F.col("out_of_sync") > 0).alias("under_replicated"),
        *(joined(F.col(name)).alias(name) for name in _MEASURED),
    ]


@kept
def _measurements() -> list[Column]:
    of_calls = [{"level": level, "kind": kind} for level in LEVELS for kind in KINDS]
    return [
        _appended(F.col("appended")).alias("appended"),
        _measured(F.col("calls"), of_calls).alias("calls"),
        _measured(F.col("applies"), [{"kind": kind} for kind in KINDS]).alias("applies"),
    ]


def _own_reports(views: DataFrame) -> DataFrame:
    """Return the reports of the windows' own seconds: what a window sees besides is another one's."""
    found = views.select(*_VIEW, F.explode("reports").alias("report")).select(*_VIEW, "report.*")
    begin, end = F.unix_millis("start") / 1000, F.unix_millis("end") / 1000
    second = F.floor(F.col("at") / 1000)
    return found.withColumn("second", second).where((second >= begin) & (second < end))


def _in_roles(found: DataFrame) -> DataFrame:
    """Add `place`: leader, follower in sync, or null; and `out_of_sync`: replicas that the smallest set lacks.

    Only the row of the leader of several replicas keeps what is said of the set in sync.
    """
    is_leader = (F.col("role") == "leader") & F.col("in_office")
    # Compared from the left: one that was deposed and does not know it is of a lower term.
    leader = F.struct("term", "at", "broker", "in_sync")
    claim = F.max(F.when(is_leader, leader)).over(Window.partitionBy(*_VIEW, "second"))
    claimed = found.withColumn("claim", claim)
    leads = is_leader & (F.col("claim.broker") == F.col("broker")) & (F.col("claim.term") == F.col("term"))
    follows = F.coalesce(F.array_contains("claim.in_sync", F.col("broker")), F.lit(False))
    placed = claimed.withColumn("place", F.when(leads, "leader").when(~is_leader & follows, "follower"))
    tells = (F.col("place") == "leader") & (F.coalesce("replicas", F.lit(2)) > 1)
    smallest = F.when(tells, F.coalesce("in_sync_min", F.size("in_sync")))
    out_of_sync = F.greatest(F.col("replicas") - smallest, F.lit(0))
    return placed.withColumns(
        {
            "in_sync_min": smallest,
            "min_in_sync": F.when(tells, F.col("min_in_sync")),
            # `greatest` passes over nulls.
            "out_of_sync": F.when(F.col("replicas").isNotNull() & smallest.isNotNull(), out_of_sync),
        }
    )


@kept
def _scopes() -> list[Column]:
    return [
        F.struct(
            F.lit(scope).alias("scope"),
            *(
                (F.col(name) if name in _OF_SCOPE[scope] else F.lit(None)).cast(kind).alias(name)
                for name, kind in _SCOPE_COLUMNS.items()
            ),
        )
        for scope in SCOPES
    ]


def _logs(role: str) -> list[Column]:
    """Return ROLE_logs, how many replicas said how long their logs are, and average and maximum of each statistic."""
    mine = {name: F.when(F.col("place") == role, F.col(name)) for name in STATS}
    figures = [F.count(mine["entries"]).alias(f"{role}_logs")]
    for name, values in mine.items():
        figures += [F.avg(values).alias(f"{role}_{name}_avg"), F.max(values).alias(f"{role}_{name}_max")]
    return figures


def _constants(keys: list[dict[str, str]]) -> Column:
    return F.array(*(F.struct(*(F.lit(value).alias(name) for name, value in key.items())) for key in keys))


def _same(each: Column, key: Column, names: list[str]) -> Column:
    found = F.lit(True)
    for name in names:
        found = found & (each[name] == key[name])
    return found


def _total(values: Column) -> Column:
    return F.aggregate(values, F.lit(0).cast("bigint"), lambda total, each: total + each)


def _appended(written: Column) -> Column:
    """Add up what was written, by role and kind; what was not written is left out."""
    keys = [{"role": role, "kind": kind} for role in ROLES for kind in KINDS]

    def of(key: Column) -> Column:
        mine = F.filter(written, lambda each: _same(each, key, ["role", "kind"]))
        return F.struct(
            key["role"].alias("role"),
            key["kind"].alias("kind"),
            _total(mine["entries"]).alias("entries"),
            _total(mine["bytes"]).alias("bytes"),
            F.array_max(mine["bytes_max"]).alias("bytes_max"),
        )

    return F.filter(F.transform(_constants(keys), of), lambda each: each["entries"] > 0)


def _measured(found: Column, keys: list[dict[str, str]]) -> Column:
    """Add up calls or applies by key: n, failed, p50, p99 and the longest; what did not happen is left out."""
    names = list(keys[0])

    def of(key: Column) -> Column:
        mine = F.filter(found, lambda each: _same(each, key, names))
        buckets, largest = F.flatten(mine["buckets"]).cast(BUCKETS), F.array_max(mine["max_us"])
        return F.struct(
            *(key[name].alias(name) for name in names),
            bucket_count(buckets).alias("n"),
            _total(mine["failed"]).alias("failed"),
            *(bucket_percentile(buckets, percent, largest).alias(f"{end}_us") for end, percent in PERCENTS.items()),
            largest.alias("max_us"),
        )

    return F.filter(F.transform(_constants(keys), of), lambda each: (each["n"] > 0) | (each["failed"] > 0))
