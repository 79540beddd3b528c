"""Spark's Kafka source on five million records of 100 bytes: rows/s, and whose the processor's time is."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import native_client
from benchmarks.cluster import TOPIC, BenchmarkError
from benchmarks.compare.match import BrokerCpu, Contender, Measurement, Metrics, play, rivals
from benchmarks.compare.verdict import Target, match_row
from benchmarks.plan import Plan
from benchmarks.processes import cpu_seconds
from raftka.pipeline.source_options import POLL_RECORDS, source_options
from raftka.pipeline.spark_session import jvm_pid, open_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

_SIZE = 100
_RECORDS, _QUICK_RECORDS = 5_000_000, 200_000
# So many that the JVM has compiled what it is going to: the first pair would be slower, and the first contender most.
_WARM_UP_RECORDS = 3_000_000
_PARTITIONS = 4
_WRITE_SECONDS_MAX = 600
_QUERY_SECONDS_MAX = 600

# Reads the whole topic once, and returns how many rows that were; the folder is empty and is removed afterwards.
_Reading = Callable[["SparkSession", str, Path], int]


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return rows/s of each way to read, in one session that has read both clusters before."""
    records = _QUICK_RECORDS if plan.is_quick else _RECORDS
    rows, matches = [], {}
    with rivals(data_dir, plan) as found:
        spark = open_session("benchmark", {"master": "local[2]"}, data_dir / "spark.log")
        try:
            # Unmeasured: what Spark does first, its JVM has not compiled yet.
            warm_up = _QUICK_RECORDS if plan.is_quick else _WARM_UP_RECORDS
            play(found.both(), _PARTITIONS, 1, _measurement(spark, data_dir, warm_up, _READINGS))
            for suffix, config, readings, target in _CASES:
                what = f"Spark's Kafka source, {records:,} records of {_SIZE} bytes{suffix}"
                ours, kafka = found.both()
                contenders = [Contender(ours.label, ours.cluster, config), kafka]
                measurement = _measurement(spark, data_dir, records, readings)
                match = play(contenders, _PARTITIONS, plan.pairs, measurement)
                matches[what] = match.to_json()
                for name in readings:
                    bound = [target] if name in _ASKED else []
                    rows.append(match_row(match, f"{what}: {name}", "rows/s", _rate(name), *bound))
                    rows.append(match_row(match, f"{what}: {name}: the brokers' share of the CPU", "%", _share(name)))
        finally:
            spark.stop()
    return {
        "what": f"PySpark on local[2], a topic of {_PARTITIONS} partitions with three replicas that librdkafka has just"
        " written; of the CPU that brokers and Spark's JVM use, the share of all three brokers",
        "rows": rows,
        "matches": matches,
    }


def _rate(name: str) -> str:
    return f"{name}: rows per second"


def _share(name: str) -> str:
    return f"{name}: percent of the CPU"


def _measurement(spark: "SparkSession", data_dir: Path, records: int, readings: Mapping[str, _Reading]) -> Measurement:
    def run(contender: Contender) -> Metrics:
        cluster = contender.cluster
        flood = {"mode": "flood", "size": _SIZE, "count": records, "seconds": _WRITE_SECONDS_MAX}
        written = native_client.run("producer", {"brokers": cluster.bootstrap, "topic": TOPIC, **flood}).numbers
        cluster.wait_in_sync(_PARTITIONS)
        found: dict[str, float] = {"errors": written["errors"]}
        for name, reading in readings.items():
            folder = Path(tempfile.mkdtemp(prefix="spark-", dir=data_dir))
            try:
                found |= _timed(spark, contender, name, reading, folder, records)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return found

    return run


def _timed(
    spark: "SparkSession", contender: Contender, name: str, reading: _Reading, folder: Path, records: int
) -> Metrics:
    jvm = jvm_pid(spark)
    if jvm is None:
        raise BenchmarkError("Spark's JVM is no child of this process: its CPU cannot be told from others'")
    brokers = BrokerCpu(contender.cluster)
    before = cpu_seconds(jvm)
    brokers.began()
    rows = reading(spark, contender.cluster.bootstrap, folder)
    brokers.ended()
    if rows != records:
        raise BenchmarkError(f"{contender.label}: {name} read {rows:,} rows of {records:,}")
    used = cpu_seconds(jvm) - before + brokers.seconds
    return {_rate(name): rows / brokers.elapsed, _share(name): 100 * brokers.seconds / used}


def _batch(spark: "SparkSession", bootstrap: str, _: Path) -> int:
    return int(_options(spark.read.format("kafka"), bootstrap).load().count())


def _batch_in_large_polls(spark: "SparkSession", bootstrap: str, _: Path) -> int:
    """As pipelines read."""
    reader = spark.read.format("kafka").options(**source_options(bootstrap))
    return int(_options(reader, bootstrap).load().count())


def _available_now(spark: "SparkSession", bootstrap: str, folder: Path) -> int:
    counts: list[int] = []

    def count(frame: "DataFrame", _: int) -> None:
        counts.append(frame.count())

    _run_to_the_end(_stream(spark, bootstrap, folder).foreachBatch(count))
    return sum(counts)


def _to_parquet(spark: "SparkSession", bootstrap: str, folder: Path) -> int:
    return _run_to_the_end(_stream(spark, bootstrap, folder).format("parquet").option("path", str(folder / "table")))


_ASKED: dict[str, _Reading] = {
    "batch count": _batch,
    "availableNow count": _available_now,
    "availableNow to Parquet": _to_parquet,
}
_READINGS = _ASKED | {f"batch count, max.poll.records={POLL_RECORDS}": _batch_in_large_polls}

# By name, what Raftka's topic is configured with, what is read, and what is asked of it: Spark asks for the last offset
# with each poll, and a leader that answers alone promises what Kafka's does.
_CASES: tuple[tuple[str, Mapping[str, str], Mapping[str, _Reading], Target], ...] = (
    ("", {}, _READINGS, Target(">=", 0.9)),
    (", list.offsets.linearizable=false", {"list.offsets.linearizable": "false"}, _ASKED, Target(">=", 1.0)),
)


def _options(reader: Any, bootstrap: str) -> Any:
    return (
        reader.option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
    )


def _stream(spark: "SparkSession", bootstrap: str, folder: Path) -> "DataStreamWriter":
    frame = _options(spark.readStream.format("kafka"), bootstrap).load()
    writer: DataStreamWriter = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True)


def _run_to_the_end(writer: "DataStreamWriter") -> int:
    query = writer.start()
    try:
        if not query.awaitTermination(_QUERY_SECONDS_MAX):
            raise BenchmarkError(f"Spark's query was not done within {_QUERY_SECONDS_MAX} s")
    finally:
        query.stop()
    return sum(each.numInputRows for each in query.recentProgress)
