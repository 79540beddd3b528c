"""Which records of an archive compaction may have removed from the log: those that have a later record of their key."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.archive.findings import FaultKind


def with_compacted(differences: DataFrame, held: DataFrame, old_ms: int) -> DataFrame:
    """Return differences, in which what compaction explains is COMPACTED and no longer SURPLUS.

    A record explains that an earlier one of its partition and key is missing. A tombstone may also be missing once it
    is old. A record without a key may be missing at any time: compaction removes all of them.

    Args:
        differences: Rows with partition, offset, kind, key, timestamp and is_tombstone.
        held: Partition, offset and key of what the archive and the log have; a record may be there several times.
        old_ms: A tombstone whose timestamp is at most this, in milliseconds since 1970, is old.
    """
    newest = held.where("key IS NOT NULL").groupBy("partition", "key").agg(F.max("offset").alias("newest"))
    joined = differences.join(newest, ["partition", "key"], "left")
    kind = F.when((F.col("kind") == FaultKind.SURPLUS.value) & _is_explained(old_ms), FaultKind.COMPACTED.value)
    return joined.withColumn("kind", kind.otherwise(F.col("kind")))


def _is_explained(old_ms: int) -> Column:
    is_superseded = F.coalesce(F.col("newest") > F.col("offset"), F.lit(False))
    is_old = F.col("is_tombstone") & (F.unix_millis("timestamp") <= old_ms)
    return F.col("key").isNull() | is_superseded | F.coalesce(is_old, F.lit(False))
