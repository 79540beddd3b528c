"""A history that lies in a topic, one line per record: brought into files, one per partition.

So it is read and named as any history is: `TOPIC-PARTITION:LINE`, where a partition that begins at offset 0 and has no
gaps has offset N in line N + 1.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from raftka.check.errors import HistoryError
from raftka.kafka import client as kafka_client
from raftka.pipeline.audit.parts import HistoryFile
from raftka.pipeline.source_options import source_options


def read_topic(spark: SparkSession, brokers: str, topic: str, folder: Path) -> list[HistoryFile]:
    """Return the files of a topic, written into a folder; partitions without records have none.

    Raises:
        HistoryError: The topic is empty, or the value of a record is no line.
        KafkaClientError: There is no such topic, or no broker answers.
    """
    partitions = sorted(info.partition for info in kafka_client.read_cluster(brokers).topic(topic))
    rows = (
        spark.read.format("kafka")
        .options(**source_options(brokers))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
        .select("partition", "offset", "value")
        .repartition(len(partitions), "partition")
        .sortWithinPartitions("partition", "offset")
    )

    def write(found: Iterator[Any]) -> Iterator[tuple[int, int | None]]:
        """Yield (partition, the first offset whose value is no line)."""
        for partition, records in groupby(found, attrgetter("partition")):
            path = folder / f"{topic}-{partition}"
            wrong = None
            with path.open("wb") as stream:
                for record in records:
                    if not record.value or b"\n" in record.value:
                        wrong = record.offset
                        break
                    stream.write(record.value + b"\n")
            yield partition, wrong
            if wrong is not None:
                return

    written = sorted(rows.rdd.mapPartitions(write).collect())
    for partition, wrong in written:
        if wrong is not None:
            raise HistoryError(f"{topic}-{partition}: the value at offset {wrong} is no line")
    if not written:
        raise HistoryError(f"{topic} is empty: there is nothing to judge")
    return [HistoryFile(folder / f"{topic}-{partition}", f"{topic}-{partition}") for partition, _ in written]
