"""What the brokers tell: records of the telemetry topic become reports, and reports are gathered.

A report is one replica in one second. What is no report is left out and counted, by the reason.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.json_objects import is_one_object
from raftka.pipeline.telemetry.figures import BUCKETS

VERSION = 1
ROLES = ("leader", "follower", "candidate", "learner")
# Windows see some seconds of the next one: a leader that was not heard for a second is known to have led in it as
# soon as it reports again.
AHEAD_SECONDS = 3
# A broker whose clock is wrong must not move the watermark, or everybody else would be late.
CLOCK_MS = 60_000
# Sums of what is at most this large stay far from 2^63, where Spark would end the query.
_OFFSET_MAX = 1 << 53
_BYTES_MAX = 1 << 40
_COUNT_MAX = 1 << 32

# What reports are gathered with, beside numbers; maps cannot be compared.
APPENDED = "ARRAY<STRUCT<role: STRING, kind: STRING, entries: BIGINT, bytes: BIGINT, bytes_max: BIGINT>>"
MEASURED = f"ARRAY<STRUCT<kind: STRING, failed: BIGINT, max_us: BIGINT, buckets: {BUCKETS}>>"

PARTITION = ("topic", "topic_id", "partition")
# By reason: what is counted of it, as the progress of a batch has it.
REASONS = ("not_json", "other_version", "incomplete", "wrong_clock")

LEVELS = ("quorum_ack", "leader_ack")
# Kinds of entries; others are of later brokers, and left out.
KINDS = ("data", "configuration", "barrier", "command", "log_start", "placeholder")

_HISTOGRAM = "STRUCT<max_us: BIGINT, buckets: ARRAY<ARRAY<BIGINT>>>"
_BY_KIND = f"MAP<STRING, {_HISTOGRAM}>"
_COUNTS = "MAP<STRING, BIGINT>"
_APPENDED = "MAP<STRING, STRUCT<entries: BIGINT, bytes: BIGINT, bytes_max: BIGINT>>"
# Some of the names are words of SQL.
_SCHEMA = (
    "`at` BIGINT, `broker` INT, `boot` STRING, `topic` STRING, `topic_id` STRING, `partition` INT, `role` STRING,"
    " `in_office` BOOLEAN, `term` BIGINT, `leader` INT, `dirty` BIGINT, `commit` BIGINT,"
    " `followers` MAP<STRING, STRUCT<dirty: BIGINT>>,"
    f" `replicate` STRUCT<quorum_ack: {_HISTOGRAM}, leader_ack: {_HISTOGRAM}>, `fsync` {_HISTOGRAM},"
    " `recovery_bytes` BIGINT, `in_sync` ARRAY<INT>, `entries` BIGINT, `unapplied` BIGINT, `min_in_sync` INT,"
    f" `in_sync_min` INT, `voters` ARRAY<INT>, `appended` STRUCT<leader: {_APPENDED}, follower: {_APPENDED}>,"
    f" `replicate_other` STRUCT<quorum_ack: {_BY_KIND}, leader_ack: {_BY_KIND}>,"
    f" `replicate_failed` STRUCT<quorum_ack: {_COUNTS}, leader_ack: {_COUNTS}>,"
    f" `apply` {_BY_KIND}, `apply_failed` {_COUNTS}, `_corrupt` STRING"
)


def judged(records: DataFrame) -> DataFrame:
    """Return the records with `told`, what their JSON says, and `reason`: why one is no report; null for a report.

    Args:
        records: Rows with `value` and `timestamp`, as Spark's Kafka source has them.
    """
    text = F.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    told = records.withColumn("told", F.from_json(text, _SCHEMA, options))
    is_object = F.coalesce(is_one_object(text) & F.col("told").isNotNull(), F.lit(False))
    version = F.get_json_object(text, "$.v")
    # An object with a value of another type is corrupt to Spark; what it lacks then is seen below.
    is_json = is_object & (F.col("told._corrupt").isNull() | version.isNotNull())
    reason = (
        F.when(~is_json, "not_json")
        .when(version.isNull() | (version != str(VERSION)), "other_version")
        .when(~_is_complete(), "incomplete")
        .when(~_is_now(), "wrong_clock")
    )
    return told.withColumn("reason", reason)


def _is_complete() -> Column:
    def within(name: str, largest: int) -> Column:
        return F.col(f"told.{name}").between(0, largest)

    there = F.col("told.topic").isNotNull() & F.col("told.topic_id").isNotNull() & F.col("told.boot").isNotNull()
    numbers = within("broker", (1 << 31) - 1) & within("partition", (1 << 31) - 1)
    numbers &= within("recovery_bytes", _BYTES_MAX)
    for name in ("at", "term", "dirty", "commit"):
        numbers &= within(name, _OFFSET_MAX)
    return F.coalesce(there & numbers & F.col("told.role").isin(*ROLES), F.lit(False))


def _is_now() -> Column:
    """Return whether a report is of the time of its record, and not of the future."""
    written = F.unix_millis("timestamp")
    of_record = F.col("told.at").between(written - CLOCK_MS, written + CLOCK_MS)
    return of_record & (F.col("told.at") <= F.unix_millis(F.current_timestamp()) + CLOCK_MS)


def counted(judgements: DataFrame) -> DataFrame:
    """Let a stream's batches count what is left out, by reason."""
    counts = [F.count_if(F.coalesce(F.col("reason") == reason, F.lit(False))).alias(reason) for reason in REASONS]
    return judgements.observe("telemetry", *counts)


def reports(judgements: DataFrame) -> DataFrame:
    """Return the reports: the partition, `time`, and `report` with the rest."""
    told = F.col("told")
    known = F.transform(
        F.map_entries(told["followers"]),
        lambda each: F.struct(each["key"].try_cast("int").alias("broker"), each["value"]["dirty"].alias("dirty")),
    )
    followers = F.filter(known, lambda each: each["broker"].isNotNull() & each["dirty"].between(0, _OFFSET_MAX))
    # In this order: reports of one second are compared by it, and the leader of the highest term is the leader.
    report = F.struct(
        *(told[name].alias(name) for name in ("term", "at", "broker", "boot", "role", "leader", "dirty", "commit")),
        # A broker that does not say so serves since it was elected.
        F.coalesce(told["in_office"], F.lit(True)).alias("in_office"),
        F.array_sort(followers).alias("followers"),
        _histogram(told["replicate"]["quorum_ack"]).alias("quorum_ack"),
        _histogram(told["replicate"]["leader_ack"]).alias("leader_ack"),
        _histogram(told["fsync"]).alias("fsync"),
        told["recovery_bytes"].alias("recovery_bytes"),
        # Null in reports of earlier brokers, and so is each of these that cannot be.
        F.when(F.size(told["in_sync"]) > 0, F.array_sort(told["in_sync"])).alias("in_sync"),
        *(
            F.when(told[name].between(0, _OFFSET_MAX), told[name]).alias(name)
            for name in ("entries", "unapplied", "min_in_sync", "in_sync_min")
        ),
        F.when(F.size(told["voters"]) > 0, F.size(told["voters"])).alias("replicas"),
        _appended(told["appended"]).alias("appended"),
        _calls(told).alias("calls"),
        _measured(told["apply"], told["apply_failed"]).alias("applies"),
    )
    return judgements.where("reason IS NULL").select(
        *(told[name].alias(name) for name in PARTITION),
        F.timestamp_millis(told["at"]).alias("time"),
        report.alias("report"),
    )


def _histogram(told: Column) -> Column:
    """Return a histogram as (max_us, buckets), null where nothing happened; what is no bucket is left out."""
    buckets = F.transform(
        told["buckets"], lambda pair: F.struct(F.get(pair, 0).alias("upper_us"), F.get(pair, 1).alias("count"))
    )

    def is_bucket(bucket: Column) -> Column:
        return bucket["upper_us"].between(0, _OFFSET_MAX) & bucket["count"].between(1, _COUNT_MAX)

    good = F.filter(buckets, is_bucket).cast(BUCKETS)
    largest = F.coalesce(told["max_us"], F.array_max(good)["upper_us"])
    return F.when(F.size(good) > 0, F.struct(largest.alias("max_us"), good.alias("buckets")))


def _entries_of(by_kind: Column) -> Column:
    """Return (key, value) of each kind that is known, in order; an empty array where there is no map."""
    known = F.filter(F.map_entries(by_kind), lambda each: each["key"].isin(*KINDS) & each["value"].isNotNull())
    return F.array_sort(known)


def _appended(told: Column) -> Column:
    """Return what was written as (role, kind, entries, bytes, bytes_max)."""
    none = F.array().cast(APPENDED)

    def of(role: str) -> Column:
        written = F.transform(
            _entries_of(told[role]),
            lambda each: F.struct(
                F.lit(role).alias("role"),
                each["key"].alias("kind"),
                *(each["value"][name].alias(name) for name in ("entries", "bytes", "bytes_max")),
            ),
        )
        # Larger ones cannot be, and their sums would end the query.
        sound = F.filter(
            written,
            lambda each: (
                each["entries"].between(0, _COUNT_MAX)
                & each["bytes"].between(0, _BYTES_MAX)
                & each["bytes_max"].between(0, _BYTES_MAX)
            ),
        )
        return F.coalesce(sound, none)

    return F.concat(of("leader"), of("follower"))


def _calls(told: Column) -> Column:
    """Return calls as (level, kind, failed, max_us, buckets): durations and failures of a kind are apart."""

    def of(level: str) -> Column:
        # Older than the other kinds, the producers' calls have a key of their own.
        data = F.map_from_arrays(F.array(F.lit("data")), F.array(told["replicate"][level]))
        failed = told["replicate_failed"][level]
        found = F.concat(_measured(data, None), _measured(told["replicate_other"][level], failed))
        return F.transform(
            found,
            lambda each: F.struct(
                F.lit(level).alias("level"),
                *(each[name].alias(name) for name in ("kind", "failed", "max_us", "buckets")),
            ),
        )

    return F.concat(*map(of, LEVELS))


def _measured(durations: Column, failed: Column | None) -> Column:
    """Return what was measured, and what has failed, as (kind, failed, max_us, buckets)."""
    none = F.array().cast(MEASURED)
    measured = F.transform(
        _entries_of(durations),
        lambda each: F.struct(
            each["key"].alias("kind"),
            F.lit(0).cast("bigint").alias("failed"),
            _histogram(each["value"])["max_us"].alias("max_us"),
            _histogram(each["value"])["buckets"].alias("buckets"),
        ),
    )
    whole = F.coalesce(F.filter(measured, lambda each: each["buckets"].isNotNull()), none)
    if failed is None:
        return whole
    failures = F.transform(
        _entries_of(failed),
        lambda each: F.struct(
            each["key"].alias("kind"),
            each["value"].alias("failed"),
            F.lit(None).cast("bigint").alias("max_us"),
            F.array().cast(BUCKETS).alias("buckets"),
        ),
    )
    sound = F.filter(failures, lambda each: each["failed"].between(1, _COUNT_MAX))
    return F.concat(whole, F.coalesce(sound, none))


def gathered(found: DataFrame, window: int, watermark: float) -> DataFrame:
    """Return one row per partition and window: `start` and `end` of the window, and the reports that it sees.

    A window sees AHEAD_SECONDS of the next one and the rest of its own length of the one before: what was before says
    whether a term is new and whether commit has moved. On a stream a row comes once, when the watermark has passed all
    that the window sees. A report that is there twice counts once.

    Args:
        found: As of `reports`.
        window: Seconds.
        watermark: Seconds.
    """
    seen = F.window("time", f"{2 * window} seconds", f"{window} seconds", f"{AHEAD_SECONDS} seconds")
    behind = F.expr(f"INTERVAL {window - AHEAD_SECONDS} SECONDS")
    ahead = F.expr(f"INTERVAL {AHEAD_SECONDS} SECONDS")
    return (
        found.withWatermark("time", f"{watermark} seconds")
        .groupBy(seen.alias("seen"), *PARTITION)
        .agg(F.collect_set("report").alias("reports"))
        .select(
            *PARTITION,
            (F.col("seen.start") + behind).alias("start"),
            (F.col("seen.end") - ahead).alias("end"),
            "reports",
        )
    )
