"""Offsets between records, found by Spark, and looked up in the log one gap after the other."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from raftka.pipeline.archive.blocks import BLOCK_OFFSETS, Span
from raftka.pipeline.archive.frames import between_records
from raftka.pipeline.archive.gaps import Piece, Told, causes, tallied

Partition = tuple[str, int]


def explained(
    records: DataFrame,
    wanted: Mapping[Partition, Span],
    read: Callable[[str, int, int], Piece],
    *,
    is_compacted: bool,
) -> dict[Partition, tuple[Told, ...]]:
    """Return why offsets have no record, by partition.

    Gaps are handed on one by one, so that their number needs no bound: behind each transaction there is one. What is
    read is bounded by the log: no part of it is read twice.

    Args:
        records: Partition and offset of every record that either side has, of one topic, at least in these spans.
        wanted: Where gaps are looked for, by partition.
        read: Returns what a partition's log has from an offset on.
        is_compacted: Whether the topic's log may lose records to compaction.

    Raises:
        KafkaClientError: The brokers do not tell.
    """
    topics = {partition: topic for topic, partition in wanted}
    found = {}
    for partition, gaps in groupby(_gaps(records, wanted), key=lambda row: row.partition):
        topic = topics[partition]
        spans = (Span(row.begin, row.end) for row in gaps)
        found[topic, partition] = tallied(causes(spans, partial(read, topic, partition), is_compacted=is_compacted))
    return found


def _gaps(records: DataFrame, wanted: Mapping[Partition, Span]) -> Iterator[Any]:
    block = F.floor(F.col("offset") / BLOCK_OFFSETS).alias("block")
    edges = (_edges(records, partition, span) for (_, partition), span in wanted.items())
    rows: Iterator[Any] = between_records(
        records.select("partition", block, "offset"), reduce(DataFrame.unionByName, edges)
    ).toLocalIterator()
    return rows


def _edges(records: DataFrame, partition: int, span: Span) -> DataFrame:
    """Return for each block of a span the offset before its first one, and the one behind its last."""
    blocks = records.sparkSession.range(span.begin // BLOCK_OFFSETS, (span.end - 1) // BLOCK_OFFSETS + 1)
    first = F.greatest(F.col("id") * BLOCK_OFFSETS, F.lit(span.begin)) - 1
    end = F.least((F.col("id") + 1) * BLOCK_OFFSETS, F.lit(span.end))
    return blocks.select(
        F.lit(partition).cast("int").alias("partition"),
        F.col("id").alias("block"),
        F.explode(F.array(first, end)).alias("offset"),
    )
