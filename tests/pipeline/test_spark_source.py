"""What Spark's own Kafka source and sink ask of the brokers, option by option."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from raftka.kafka import client as kafka_client
from raftka.pipeline.archive.folder import ArchiveFolder
from raftka.pipeline.archive.reading import read_archive
from raftka.pipeline.archive.verification import Wanted, verify
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.runner import StopRequest
from raftka.pipeline.telemetry.settings import TELEMETRY_TOPIC
from tests.pipeline.pipelines import Record, new_topic, read, read_available, run, write
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster, ClusterMaker, eventually
from tests.process.kafka_topics import delete_topic

BASE = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def numbered(count: int, partition: int = 0, begin: int = 0) -> list[Record]:
    return [Record(b"k", b"%d" % number, BASE + number * 1_000, partition) for number in range(begin, begin + count)]


def loaded(spark: Any, cluster: BrokerCluster, topic: str, **options: Any) -> Any:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap).option("subscribe", topic)
    return reader.options(**options).load()


def test_a_batch_is_read_by_timestamps_and_by_offsets_in_as_many_tasks_as_asked_for(
    spark: Any, cluster: BrokerCluster
) -> None:
    topic = new_topic(cluster, "numbers", 2)
    write(cluster.bootstrap, topic, numbered(100) + numbered(50, 1))

    def values(**options: Any) -> list[tuple[int, int]]:
        rows = loaded(spark, cluster, topic, **options).select("partition", "value").collect()
        return sorted((row.partition, int(row.value)) for row in rows)

    whole = [(0, number) for number in range(100)] + [(1, number) for number in range(50)]
    assert values() == whole
    assert loaded(spark, cluster, topic, minPartitions=8).rdd.getNumPartitions() >= 8
    assert values(minPartitions=8) == whole
    times = {topic: {"0": BASE + 89_500, "1": BASE + 45_000}}
    by_time = values(startingOffsetsByTimestamp=json.dumps(times))
    assert by_time == [(0, number) for number in range(90, 100)] + [(1, number) for number in range(45, 50)]
    # Nothing is that late in partition 1, and it is said.
    late = json.dumps({topic: {"0": BASE + 99_000, "1": BASE + 99_000}})
    assert values(startingOffsetsByTimestamp=late, startingOffsetsByTimestampStrategy="latest") == [(0, 99)]
    begin, end = (json.dumps({topic: {"0": offset, "1": offset}}) for offset in (10, 12))
    assert values(startingOffsets=begin, endingOffsets=end) == [(0, 10), (0, 11), (1, 10), (1, 11)]
    assert values(**{"kafka.isolation.level": "read_committed"}) == whole


def test_a_stream_begins_at_timestamps_and_reads_in_as_many_tasks_as_asked_for(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic = new_topic(cluster, "numbers", 2)
    write(cluster.bootstrap, topic, numbered(100) + numbered(50, 1))
    times = {topic: {"0": BASE + 39_500, "1": BASE + 45_000}}
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsetsByTimestamp", json.dumps(times))
    tasks: list[int] = []
    found: list[tuple[int, int]] = []

    def take(frame: Any, _: int) -> None:
        tasks.append(frame.rdd.getNumPartitions())
        found.extend((row.partition, int(row.value)) for row in frame.select("partition", "value").collect())

    def read_on() -> None:
        read_available(reader.option("minPartitions", 8), take, tmp_path / "checkpoint")

    read_on()
    assert sorted(found) == [(0, number) for number in range(40, 100)] + [(1, number) for number in range(45, 50)]
    assert min(tasks) >= 8
    found.clear()
    # Older than where the stream began: what counts now is the checkpoint.
    write(cluster.bootstrap, topic, numbered(3))
    read_on()
    assert sorted(found) == [(0, 0), (0, 1), (0, 2)]


def test_a_pipeline_begins_at_its_timestamp_and_where_nothing_is_that_late_with_what_comes_next(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic, path = new_topic(cluster, "numbers", 2), tmp_path / "cold"
    wanted = {"topics": topic, "to": str(path), "brokers": cluster.bootstrap}
    wanted |= {"starting_timestamp": str(BASE + 7_500), "min_partitions": "4"}
    write(cluster.bootstrap, topic, numbered(10) + numbered(5, 1))
    status, _ = run(spark, tmp_path, "archive", **wanted)
    assert status.rows == 2
    write(cluster.bootstrap, topic, numbered(3, 1))
    status, _ = run(spark, tmp_path, "archive", **wanted)
    assert status.rows == 3
    rows = read_archive(spark, path, topic).select("partition", "offset").collect()
    assert sorted(map(tuple, rows)) == [(0, 8), (0, 9), (1, 5), (1, 6), (1, 7)]
    # What came before was not asked for, and is not missed.
    assert verify(spark, ArchiveFolder.open(path), Wanted(cluster.bootstrap)).is_whole


def test_records_of_every_codec_are_read(spark: Any, cluster: BrokerCluster) -> None:
    topic = new_topic(cluster, "packed")
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "logger": quiet_logger()}
        )
        for _ in range(100):
            producer.produce(topic, codec.encode() * 100)
        assert producer.flush(DEADLINE_SECONDS) == 0
    # The libraries that unpack are PySpark's: the connector's JARs come without them.
    found = loaded(spark, cluster, topic).groupBy("value").count().collect()
    assert {bytes(row["value"]): row["count"] for row in found} == {codec.encode() * 100: 100 for codec in codecs}


def test_what_brokers_tell_of_themselves_is_read(spark: Any, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(1, **{"telemetry.enable": True})
    cluster.start()
    eventually(
        "the brokers make the topic",
        lambda: TELEMETRY_TOPIC in kafka_client.read_cluster(cluster.bootstrap).topics or None,
    )
    # Spark's source leaves out, without a word, what Metadata calls internal.
    eventually("a report is read", lambda: loaded(spark, cluster, TELEMETRY_TOPIC).count() or None)


@pytest.mark.parametrize("acks", ["all", "1"])
def test_the_sink_writes_keys_headers_and_partitions_at_every_level(
    spark: Any, cluster: BrokerCluster, acks: str
) -> None:
    topic = new_topic(cluster, "written", 2)
    rows = spark.range(1000).selectExpr(
        "CAST(id AS STRING) AS key",
        "CAST(id * 2 AS STRING) AS value",
        "CAST(id % 2 AS INT) AS partition",
        "array(named_struct('key', 'h', 'value', CAST('x' AS BINARY))) AS headers",
    )
    sink = rows.write.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic)
    # The Java producer is idempotent by default, and then takes no acks below all.
    idempotence = "true" if acks == "all" else "false"
    sink.options(**{"kafka.acks": acks, "kafka.enable.idempotence": idempotence}).save()
    found = read(cluster.bootstrap, topic, 2)
    assert sorted((int(each.key or b""), int(each.value or b""), each.partition) for each in found) == [
        (number, number * 2, number % 2) for number in range(1000)
    ]
    assert {each.headers for each in found} == {(("h", b"x"),)}


@pytest.mark.long
def test_a_topic_that_appears_under_a_running_query_is_read_from_its_beginning(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    first, later = new_topic(cluster, "appearing-a"), []
    write(cluster.bootstrap, first, numbered(10))
    stop = StopRequest()

    def watch(line: str) -> None:
        if not later:
            later.append(new_topic(cluster, "appearing-b"))
            write(cluster.bootstrap, later[0], numbered(20))
        elif line.startswith("batch") and " 20 records" in line:
            stop.set()

    status, _ = run(
        spark,
        tmp_path,
        "archive",
        stop=stop,
        out=watch,
        topics_pattern="appearing-.*",
        trigger="500ms",
        to=str(tmp_path / "cold"),
        brokers=cluster.bootstrap,
        **{"kafka_metadata.max.age.ms": "1000"},
    )
    assert status.rows == 30
    assert read_archive(spark, tmp_path / "cold", later[0]).count() == 20


@pytest.mark.long
def test_a_topic_that_is_deleted_under_a_query_ends_it_with_its_name(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic = new_topic(cluster, "gone")
    write(cluster.bootstrap, topic, numbered(10))

    def delete(line: str) -> None:
        if line.startswith("batch 0"):
            delete_topic(cluster.bootstrap, topic)

    wanted = {"topics": topic, "to": str(tmp_path / "cold"), "brokers": cluster.bootstrap, "trigger": "500ms"}
    with pytest.raises(PipelineError, match=f"topic {topic} was deleted"):
        run(spark, tmp_path, "archive", out=delete, **wanted)


@pytest.mark.long
def test_records_that_retention_took_before_they_were_read_end_the_query_with_a_clear_error(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    from raftka.kafka import offsets as kafka_offsets

    topic = new_topic(cluster, "short")
    wanted = {"topics": topic, "to": str(tmp_path / "cold"), "brokers": cluster.bootstrap}
    write(cluster.bootstrap, topic, numbered(10))
    run(spark, tmp_path, "archive", **wanted)
    write(cluster.bootstrap, topic, numbered(10, 0, 10))
    kafka_offsets.delete_records(cluster.bootstrap, {(topic, 0): 15})
    with pytest.raises(PipelineError, match="records are gone that were not read yet"):
        run(spark, tmp_path, "archive", **wanted)
    run(spark, tmp_path, "archive", fail_on_data_loss="false", **wanted)
    offsets = sorted(row.offset for row in read_archive(spark, tmp_path / "cold", topic).select("offset").collect())
    assert offsets == [*range(10), *range(15, 20)]
