"""What a reader of a compacted topic finds from its beginning."""

from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

from tests.process.acked_log import high_watermark, quiet_logger
from tests.process.broker_processes import eventually


class KeyedRecord(NamedTuple):
    """A record; without a value it is a tombstone."""

    partition: int
    offset: int
    key: bytes
    value: bytes | None


def read_all(bootstrap: str, topic: str, partitions: int = 1) -> list[KeyedRecord]:
    """Return the records that a topic has now, in order within each partition."""
    options = {"group.id": "by-hand", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "logger": quiet_logger(), **options})
    records: list[KeyedRecord] = []
    # A topic that is written to all the time has no end that could be read.
    ends = [high_watermark(bootstrap, topic, number) for number in range(partitions)]
    unread = {number for number, end in enumerate(ends) if end}

    def is_read() -> bool:
        for message in consumer.consume(500, 0.5):
            place, offset = message.partition() or 0, message.offset() or 0
            if message.error() is None:
                records.append(KeyedRecord(place, offset, message.key() or b"", message.value()))
            if message.error() is not None or offset + 1 >= ends[place]:
                unread.discard(place)
        return not unread

    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        eventually(lambda: f"the end of {topic}", is_read)
    finally:
        consumer.close()
    return records


def is_compacted(records: Sequence[KeyedRecord], fewest_removed: int) -> bool:
    """Return whether at least so many records are missing between those that are left."""
    ends = {record.partition: record.offset + 1 for record in records}
    return sum(ends.values()) - len(records) >= fewest_removed
