"""Pipelines as the tests run them: in the session of all tests, or as a process of their own."""

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from raftka.pipeline.kinds import load_kind
from raftka.pipeline.run_folder import RunFolder
from raftka.pipeline.runner import Runner, StopRequest
from raftka.pipeline.settings import convert
from raftka.pipeline.status import Status
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import DEADLINE_SECONDS, BrokerCluster
from tests.process.kafka_topics import create_topic

_numbers = itertools.count()


class Record(NamedTuple):
    """A record to write, or as it was read; `offset` is -1 until it was."""

    key: bytes | None
    value: bytes | None
    timestamp: int = 0
    partition: int = 0
    headers: tuple[tuple[str, bytes], ...] = ()
    offset: int = -1


def new_topic(cluster: BrokerCluster, beginning: str = "topic", partitions: int = 1, **config: Any) -> str:
    name = f"{beginning}-{next(_numbers)}"
    # Timestamps of the tests lie wherever a test wants them.
    create_topic(cluster, name, partitions, **({"retention.ms": "-1"} | config))
    return name


def write(bootstrap: str, topic: str, records: Iterable[Record]) -> None:
    """Write records and wait until all of them are acknowledged."""
    failures: list[Any] = []

    def note(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "logger": quiet_logger()}
    )
    for each in records:
        while True:
            try:
                producer.produce(
                    topic,
                    each.value,
                    each.key,
                    each.partition,
                    on_delivery=note,
                    timestamp=each.timestamp,
                    headers=list(each.headers),
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    assert failures == []


def read_available(reader: Any, take: Callable[[Any, int], None], checkpoint: Path) -> None:
    """Let a stream take what there is now, in batches, and end; a checkpoint tells where it goes on."""
    stream = reader.load().writeStream.foreachBatch(take)
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(DEADLINE_SECONDS)
    finally:
        query.stop()


def read(bootstrap: str, topic: str, partitions: int = 1) -> list[Record]:
    """Return everything that a topic holds now, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "logger": quiet_logger(),
        }
    )
    found = []
    try:
        for partition in range(partitions):
            where = TopicPartition(topic, partition)
            first, end = consumer.get_watermark_offsets(where, timeout=DEADLINE_SECONDS)
            consumer.assign([TopicPartition(topic, partition, first)])
            at = first
            while at < end:
                message = consumer.poll(DEADLINE_SECONDS)
                assert message is not None, f"{topic}-{partition} ends at {at}, not at {end}"
                assert message.error() is None, message.error()
                headers = tuple((name, value) for name, value in message.headers() or [])
                found.append(
                    Record(message.key(), message.value(), message.timestamp()[1], partition, headers, message.offset())
                )
                at = message.offset() + 1
    finally:
        consumer.close()
    return found


def run(
    spark: Any,
    folder: Path,
    kind: str,
    name: str | None = None,
    stop: StopRequest | None = None,
    out: Callable[[str], None] | None = None,
    **values: Any,
) -> tuple[Status, list[str]]:
    """Run a pipeline in a session; return its last status and its lines."""
    loaded = load_kind(kind)
    name = name or kind
    settings = convert(
        {"kind": kind} | {key.replace("_", "."): value for key, value in values.items()}, loaded.settings, name
    )
    lines: list[str] = []
    runner = Runner(name, loaded, settings, RunFolder(folder, name), stop or StopRequest(), out or lines.append)
    return runner.run(spark), lines
