"""Percentiles as expressions over arrays. All are by nearest rank: the value at place ceil(q n) of n in order.

A histogram is an array of buckets (upper_us, count). It need not be in order, and an upper bound may be there several
times: histograms are added up by joining their arrays.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

BUCKETS = "ARRAY<STRUCT<upper_us: BIGINT, count: BIGINT>>"
# Percentiles that are computed, by the ends of their columns' names; whole numbers, so that ranks are exact.
PERCENTS = {"p50": 50, "p99": 99}

P = ParamSpec("P")


def kept(build: Callable[P, list[Column]]) -> Callable[P, list[Column]]:
    """Return `build` with a memory: it builds the columns of the same arguments once for each JVM.

    A column is an object of the JVM that names columns and belongs to no table. To build one takes dozens of calls to
    the JVM, and every batch would build the same ones. Arguments must be hashable.
    """
    of_jvm: WeakKeyDictionary[object, dict[object, list[Column]]] = WeakKeyDictionary()

    @functools.wraps(build)
    def once(*args: P.args, **named: P.kwargs) -> list[Column]:
        columns = of_jvm.setdefault(SparkContext._gateway, {})  # noqa: SLF001
        key = (args, tuple(named.items()))
        if key not in columns:
            columns[key] = build(*args, **named)
        return columns[key]

    return once


def joined(arrays: Column) -> Column:
    """Return the elements of all arrays of a group, as an aggregate; an empty array where there are none."""
    return F.flatten(F.collect_list(arrays))


def rank(count: Column, percent: int) -> Column:
    """Return the place of a percentile among so many values, from 1; 0 where there are none."""
    return F.floor((count * percent + 99) / 100)


def nearest_rank(values: Column, percent: int) -> Column:
    """Return a percentile of an array of numbers; null of an empty one."""
    return F.get(F.array_sort(values), (rank(F.size(values), percent) - 1).cast("int"))


def bucket_count(buckets: Column) -> Column:
    """Return how many values a histogram has."""
    return F.aggregate(buckets, F.lit(0).cast("bigint"), lambda total, bucket: total + bucket["count"])


def bucket_percentile(buckets: Column, percent: int, largest: Column) -> Column:
    """Return the upper bound of the bucket with a percentile, at most the largest value; null of an empty histogram."""
    place = rank(bucket_count(buckets), percent)
    none = F.lit(None).cast("bigint")

    def step(seen: Column, bucket: Column) -> Column:
        total = seen["total"] + bucket["count"]
        found = F.coalesce(seen["upper_us"], F.when(total >= seen["place"], bucket["upper_us"]))
        return F.struct(seen["place"].alias("place"), total.alias("total"), found.alias("upper_us"))

    # The place goes along: Spark would count all buckets again for each of them.
    start = F.struct(place.alias("place"), F.lit(0).cast("bigint").alias("total"), none.alias("upper_us"))
    # least() passes over a null, and there is a largest value only where there is a bucket.
    found = F.aggregate(F.array_sort(buckets), start, step)["upper_us"]
    return F.when(found.isNotNull(), F.least(found, largest))


@kept
def distribution(name: str) -> list[Column]:
    """Return the columns NAME_p50, NAME_p99 and NAME_max of the array of numbers in column NAMEs."""
    values = F.col(f"{name}s")
    percentiles = [nearest_rank(values, percent).alias(f"{name}_{end}") for end, percent in PERCENTS.items()]
    return [*percentiles, F.array_max(values).alias(f"{name}_max")]


@kept
def latency(name: str) -> list[Column]:
    """Return the columns NAME_n, NAME_p50_us, NAME_p99_us and NAME_max_us of a histogram: NAME_buckets, NAME_max."""
    buckets, largest = F.col(f"{name}_buckets"), F.col(f"{name}_max")
    percentiles = [
        bucket_percentile(buckets, percent, largest).alias(f"{name}_{end}_us") for end, percent in PERCENTS.items()
    ]
    return [bucket_count(buckets).alias(f"{name}_n"), *percentiles, largest.alias(f"{name}_max_us")]


def in_one_file(rows: DataFrame, *order: str) -> DataFrame:
    """Return the rows in order, in one partition: what is written of them is one file.

    A sort alone would compute the rows twice, the first time to see where to cut them.
    """
    return rows.repartition(1).sort(*order)
