"""`raftka archive restore`: a range of an archived topic back into a topic."""

from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from raftka import kafka_client, kafka_offsets
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.manifest import load_manifest
from raftka.pipeline.archive.reading import read_files
from raftka.pipeline.archive.replay import Replay
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.query_errors import query_error


@dataclass(frozen=True, slots=True)
class Restore:
    """What is restored, and to where.

    Attributes:
        topic: As it is called in the archive.
        to: The topic to write to: empty, or made with as many partitions, and kept forever.
        begin: First offset, of every partition.
        end: The offset behind the last; None: all.
    """

    brokers: str
    topic: str
    to: str
    begin: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of it: records by partition."""

    records: dict[int, int]
    is_new_topic: bool


def restore(spark: SparkSession, folder: ArchiveFolder, wanted: Restore) -> Restored:
    """Write the records of a range, each in its partition, in order, with key, value, headers and timestamp.

    Raises:
        PipelineError: The archive has no such topic, the target is not empty, or records did not arrive.
        KafkaClientError: The brokers do not answer.
    """
    with folder.kept():
        return _restore(spark, folder, wanted)


def _restore(spark: SparkSession, folder: ArchiveFolder, wanted: Restore) -> Restored:
    from pyspark.errors import PySparkException

    manifest = load_manifest(folder)
    if wanted.topic not in manifest.topics:
        held = ", ".join(manifest.topics) or "none"
        raise PipelineError(f"{folder.path} has nothing of topic {wanted.topic} (it has {held})")
    partitions = 1 + max(partition for topic, partition in manifest.ranges if topic == wanted.topic)
    is_new = _prepare(wanted, partitions)
    rows = read_files(spark, folder, manifest.files_of(wanted.topic)).where(F.col("offset") >= wanted.begin)
    if wanted.end is not None:
        rows = rows.where(F.col("offset") < wanted.end)
    expected = {row.partition: row.rows for row in rows.groupBy("partition").agg(F.count("*").alias("rows")).collect()}
    ordered = rows.repartition(partitions, "partition").sortWithinPartitions("partition", "offset")
    try:
        ordered.select(
            "partition", "key", "value", F.unix_millis("timestamp").alias("milliseconds"), "headers"
        ).foreachPartition(Replay(wanted.brokers, wanted.to, {}))
    except PySparkException as error:
        raise PipelineError(f"{query_error(str(error))}: topic {wanted.to} has a part, delete it first") from None
    _check(wanted, partitions, expected)
    return Restored(dict(sorted(expected.items())), is_new)


def _prepare(wanted: Restore, partitions: int) -> bool:
    """Make sure that the target is there and empty; return whether it was made."""
    cluster = kafka_client.read_cluster(wanted.brokers)
    if wanted.to not in cluster.topics:
        # Old records would be gone at once by the retention of a new topic.
        kafka_client.create_topic(wanted.brokers, wanted.to, partitions, None, {"retention.ms": "-1"})
        return True
    there = cluster.topic(wanted.to)
    if len(there) < partitions:
        raise PipelineError(f"topic {wanted.to} has {len(there)} partitions, and {partitions} are needed")
    held = [(wanted.to, info.partition) for info in there]
    first, end = (look_up(wanted.brokers, held) for look_up in (kafka_offsets.first_offsets, kafka_offsets.end_offsets))
    for partition in held:
        if end[partition] > first[partition]:
            raise PipelineError(
                f"topic {wanted.to} is not empty (partition {partition[1]} ends at {end[partition]}): restoring needs"
                " an empty topic, so that a part that broke off is not taken for the whole"
            )
    return False


def _check(wanted: Restore, partitions: int, expected: dict[int, int]) -> None:
    """Compare what the target has with what was written."""
    held = [(wanted.to, partition) for partition in range(partitions)]
    first = kafka_offsets.first_offsets(wanted.brokers, held)
    end = kafka_offsets.end_offsets(wanted.brokers, held)
    for key in held:
        if end[key] - first[key] != expected.get(key[1], 0):
            raise PipelineError(
                f"topic {wanted.to} has {end[key] - first[key]:,} records in partition {key[1]}, and"
                f" {expected.get(key[1], 0):,} were written: somebody else writes there, or its retention is short"
            )
