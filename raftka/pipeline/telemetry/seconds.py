"""What each second of a partition was like: one row per partition and second.

The leader of a second is who reported in it to be leader in office (elected, and its term's barrier is committed), with
the highest term that any leader has reported until then: one that was deposed and does not know it leads nobody. A
second is

* led, if it has a leader; and also if it has none, but the leaders before and after it are the same broker in the same
  term: a term has one leader, which does not come back in it, so a report is missing and not the leader;
* stalled, if it would be led, but its leader's commit is where the leader's report before had it, and records were
  waiting for it both times;
* leaderless, if replicas reported, and it is not led;
* silent, if no replica reported, and it is not led. Brokers drop what nobody takes for some seconds, so this alone
  proves nothing. Seconds before the first report that is seen are left out.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.telemetry.figures import BUCKETS, in_one_file, joined, latency
from raftka.pipeline.telemetry.reports import PARTITION

HISTOGRAMS = ("quorum_ack", "leader_ack", "fsync")
STATES = ("led", "stalled", "leaderless", "silent")
UNAVAILABLE = ("leaderless", "stalled")
_VIEW = (*PARTITION, "start", "end")


def seconds(views: DataFrame) -> DataFrame:
    """Return the seconds of windows, from what the windows see (`gathered`); a batch, not a stream.

    Histograms are there as NAME_buckets and NAME_max, to be added up.
    """
    return _own(_classified(_all_seconds(_by_second(views))))


def _rows(first: int, last: int) -> WindowSpec:
    """Return the seconds of the same view from `first` to `last` rows after a second."""
    # Not a constant: it needs a session.
    return Window.partitionBy(*_VIEW).orderBy("second").rowsBetween(first, last)


def _by_second(views: DataFrame) -> DataFrame:
    """Return what was reported in each second in which anybody did."""
    found = views.select(*_VIEW, F.explode("reports").alias("report")).select(*_VIEW, "report.*")
    is_leader = F.col("role") == "leader"
    lags = F.transform(
        F.coalesce("followers", F.array().cast("array<struct<broker: int, dirty: bigint>>")),
        lambda each: F.struct(
            each["broker"].alias("broker"),
            # A follower may still have what a former leader gave it.
            F.greatest(F.col("dirty") - each["dirty"], F.lit(0).cast("bigint")).alias("lag"),
        ),
    )
    # Compared from the left: the highest term first, then the newest.
    leader = F.struct("term", "at", "broker", "dirty", "commit", lags.alias("lags"))
    histograms = [
        column
        for name in HISTOGRAMS
        for column in (
            joined(F.col(f"{name}.buckets")).alias(f"{name}_buckets"),
            F.max(f"{name}.max_us").alias(f"{name}_max"),
        )
    ]
    return found.groupBy(*_VIEW, F.floor(F.col("at") / 1000).alias("second")).agg(
        F.count("*").alias("reports"),
        F.max(F.when(is_leader & F.col("in_office"), leader)).alias("claim"),
        F.max(F.when(is_leader, F.col("term"))).alias("newest_term"),
        # Also of followers: a leader may die before it has reported once.
        F.collect_set(F.when(F.col("leader").isNotNull(), F.col("term"))).alias("led_terms"),
        F.sum("recovery_bytes").alias("recovery_bytes"),
        *histograms,
    )


def _all_seconds(known: DataFrame) -> DataFrame:
    """Add the seconds from the first report that a window sees to its end."""
    last = F.floor(F.unix_millis("end") / 1000) - 1
    spans = known.groupBy(*_VIEW).agg(F.min("second").alias("first"), F.max("second").alias("newest"))
    every = spans.select(*_VIEW, F.explode(F.sequence("first", F.greatest("newest", last))).alias("second"))
    return every.join(known, [*_VIEW, "second"], "left")


def _classified(every: DataFrame) -> DataFrame:
    earlier = _rows(Window.unboundedPreceding, -1)
    later = _rows(1, Window.unboundedFollowing)
    highest = F.max("newest_term").over(_rows(Window.unboundedPreceding, Window.currentRow))
    led = every.withColumn("led", F.when(F.col("claim.term") >= highest, F.col("claim")))
    before = F.last("led", ignorenulls=True).over(earlier)
    is_stuck = (
        (F.col("before.dirty") > F.col("before.commit"))
        & (F.col("led.dirty") > F.col("led.commit"))
        & (F.col("led.commit") <= F.col("before.commit"))
    )
    stuck = F.when(F.col("led").isNotNull(), F.coalesce(is_stuck, F.lit(False)))
    looked = led.withColumn("before", before).withColumn("stuck", stuck)
    looked = looked.withColumn("after", F.first("led", ignorenulls=True).over(later)).withColumn(
        "stuck_after", F.first("stuck", ignorenulls=True).over(later)
    )
    is_missed = (F.col("before.broker") == F.col("after.broker")) & (F.col("before.term") == F.col("after.term"))
    is_led = F.col("led").isNotNull() | F.coalesce(is_missed, F.lit(False))
    is_stalled = F.coalesce(F.col("stuck"), F.col("stuck_after"), F.lit(False))
    state = (
        F.when(is_led & is_stalled, "stalled")
        .when(is_led, "led")
        .when(F.col("reports").isNotNull(), "leaderless")
        .otherwise("silent")
    )
    return (
        looked.withColumn("state", state)
        .withColumn("leader", F.when(is_led, F.coalesce(F.col("led.broker"), F.col("before.broker"))))
        .withColumn("term", F.when(is_led, F.coalesce(F.col("led.term"), F.col("before.term"))))
        .withColumn("earlier", F.max(F.array_max("led_terms")).over(earlier))
        .withColumn("is_first", F.count("reports").over(earlier) == 0)
        .withColumn("elections", _elections())
    )


def _elections() -> Column:
    """Return how many terms have a leader since this second that no earlier one had.

    The first term that is seen may be older than what is seen, and does not count.
    """
    new = F.size(F.filter("led_terms", lambda term: F.col("earlier").isNull() | (term > F.col("earlier"))))
    of_first = F.greatest(F.size("led_terms") - 1, F.lit(0))
    return F.when(F.col("led_terms").isNull(), 0).when(F.col("is_first"), of_first).otherwise(new)


def _own(classified: DataFrame) -> DataFrame:
    """Return the seconds of the windows themselves, without those that they see besides."""
    begin, end = F.unix_millis("start") / 1000, F.unix_millis("end") / 1000
    no_buckets = F.array().cast(BUCKETS)
    return classified.where((F.col("second") >= begin) & (F.col("second") < end)).select(
        *_VIEW,
        F.timestamp_seconds("second").alias("second"),
        "state",
        "leader",
        "term",
        F.col("led.dirty").alias("dirty"),
        F.col("led.commit").alias("commit"),
        (F.col("led.dirty") - F.col("led.commit")).alias("commit_lag"),
        F.col("led.lags").alias("lags"),
        "elections",
        F.coalesce("reports", F.lit(0)).cast("bigint").alias("reports"),
        F.coalesce("recovery_bytes", F.lit(0)).cast("bigint").alias("recovery_bytes"),
        *(F.coalesce(f"{name}_buckets", no_buckets).alias(f"{name}_buckets") for name in HISTOGRAMS),
        *(f"{name}_max" for name in HISTOGRAMS),
    )


def seconds_table(rows: DataFrame) -> DataFrame:
    """Return the table of seconds: percentiles in place of histograms."""
    figures = [column for name in HISTOGRAMS for column in latency(name)]
    kept = ("state", "leader", "term", "dirty", "commit", "commit_lag", "lags", "elections", "reports")
    found = rows.select(*PARTITION, "second", *kept, "recovery_bytes", *figures)
    return in_one_file(found, *PARTITION, "second")
