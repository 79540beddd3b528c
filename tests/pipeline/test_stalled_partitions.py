"""Row R27: while a partition lacks replicas, Spark's batches that write to it fail; when they are back, it goes on."""

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.pipelines import Record, new_topic, read, write
from tests.process.broker_processes import BrokerCluster, ClusterMaker

RECORDS = 50
# The sink's producer gives up in seconds, not in two minutes.
IMPATIENT = {
    "kafka.delivery.timeout.ms": "6000",
    "kafka.request.timeout.ms": "3000",
    "kafka.linger.ms": "0",
    "kafka.acks": "all",
}


def copied(spark: Any, cluster: BrokerCluster, source: str, target: str, checkpoint: Path) -> None:
    """Copy what is new from one topic to the other, in one or more batches, and raise what a batch fails with."""
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        stream.selectExpr("value")
        .writeStream.format("kafka")
        .options(**IMPATIENT)
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


def test_row_r27_a_batch_that_writes_to_a_stalled_partition_fails_and_the_query_goes_on_when_replicas_are_back(
    spark: Any, make_cluster: ClusterMaker, tmp_path: Path
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    source = new_topic(cluster, "source")
    target = new_topic(cluster, "target", **{"min.insync.replicas": "3"})
    write(cluster.bootstrap, source, [Record(b"k", b"%d" % number) for number in range(RECORDS)])
    copied(spark, cluster, source, target, tmp_path / "checkpoint")

    victim = next(node for node in cluster.brokers if node != cluster.leader_of(target, 0))
    cluster[victim].kill()
    write(cluster.bootstrap, source, [Record(b"k", b"%d" % number) for number in range(RECORDS, 2 * RECORDS)])
    with pytest.raises(Exception, match=r"STREAM_FAILED|NotEnoughReplicas|Expiring|TimeoutException"):
        copied(spark, cluster, source, target, tmp_path / "checkpoint")

    cluster.restart([victim])
    cluster.wait_in_sync(target, 0)
    copied(spark, cluster, source, target, tmp_path / "checkpoint")
    # A batch that failed may have written before it did: Spark's sink writes at least once.
    assert {int(each.value or b"") for each in read(cluster.bootstrap, target, 1)} == set(range(2 * RECORDS))
