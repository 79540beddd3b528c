"""Producers that remember what was acknowledged where, and the checks of what can be read back afterwards."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.process.broker_processes import DEADLINE_SECONDS, eventually

_MESSAGE_TIMEOUT_MS = 60_000
_QUEUE_MAX = 2_000


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record as a consumer got it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: tuple[int, int]


@dataclass(slots=True)
class AckedLog:
    """What one producer sent to one partition and what was promised to it.

    Attributes:
        sent: Every value handed to the producer; values are unique.
        acked: Offset -> value, from the delivery reports.
        placeless: Values that were acknowledged without an offset: a duplicate that is older than what the broker
            remembers the place of is answered so (DUPLICATE_SEQUENCE_NUMBER), and is a success to its producer.
        failed: Values whose delivery report was an error; they may or may not be in the log.
        conflicts: Offsets that were acknowledged for two values.
        longest_pause: Seconds between two acknowledgements; set it to 0 to measure anew.
    """

    sent: set[bytes] = field(default_factory=set)
    acked: dict[int, bytes] = field(default_factory=dict)
    placeless: set[bytes] = field(default_factory=set)
    failed: dict[bytes, str] = field(default_factory=dict)
    conflicts: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    longest_pause: float = 0.0
    _acked_at: float | None = None

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Take a delivery report."""
        value, offset = message.value(), message.offset()
        if error is not None:
            self.failed[value] = str(error)
        elif offset is None or offset < 0:
            self.placeless.add(value)
        elif offset in self.acked:
            self.conflicts.append((offset, self.acked[offset], value))
        else:
            self.acked[offset] = value
            now = time.monotonic()
            self.longest_pause = max(self.longest_pause, now - (self._acked_at or now))
            self._acked_at = now


class LoadProducer:
    """Sends numbered values to one partition from a thread, until `finish`; a context manager.

    Args:
        bootstrap: The brokers.
        topic: The topic; partition 0.
        name: What its values start with.
        **options: librdkafka's.
    """

    def __init__(self, bootstrap: str, topic: str, name: str, **options: Any) -> None:
        self.log = AckedLog()
        self._topic = topic
        self._name = name
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 2,
                "message.timeout.ms": _MESSAGE_TIMEOUT_MS,
                "topic.metadata.refresh.interval.ms": 1_000,
                "reconnect.backoff.max.ms": 500,
                "logger": quiet_logger(),
                **options,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load {name}", daemon=True)

    def __enter__(self) -> "LoadProducer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_SECONDS)

    def wait_acked(self, more: int) -> None:
        """Wait until so many more records have been acknowledged."""
        goal = len(self.log.acked) + more
        eventually(
            f"{more} more acknowledged records of {self._name}; last errors {list(self.log.failed.values())[-3:]}",
            lambda: len(self.log.acked) >= goal,
        )

    def finish(self) -> AckedLog:
        """Stop sending, wait until every send was answered or given up, and return the log."""
        self._stop.set()
        self._thread.join(DEADLINE_SECONDS)
        left = self._producer.flush(DEADLINE_SECONDS)
        assert left == 0, f"{left} sends of {self._name} were never answered"
        return self.log

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            if len(self._producer) >= _QUEUE_MAX:
                self._producer.poll(0.05)
                continue
            value = f"{self._name}-{number:07d}".encode()
            self.log.sent.add(value)
            self._producer.produce(self._topic, value, partition=0, on_delivery=self.log.on_delivery)
            number += 1
            self._producer.poll(0)
            if number % 20 == 0:
                self._producer.poll(0.005)  # A few thousand a second are load enough.


class WatermarkWatcher:
    """Asks for a partition's watermarks again and again and remembers every step back; a context manager."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = new_consumer(bootstrap)
        self._partition = TopicPartition(topic, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watermarks", daemon=True)
        self.steps_back: list[tuple[int, int]] = []
        self.high = 0
        self.answers = 0

    def __enter__(self) -> "WatermarkWatcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_SECONDS)
        self._consumer.close()

    def wait_answer(self) -> None:
        """Wait for an answer to a question that was not asked yet."""
        goal = self.answers + 2
        eventually("watermarks", lambda: self.answers >= goal)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                low, high = self._consumer.get_watermark_offsets(self._partition, timeout=5.0)
            except KafkaException:
                # No leader at the moment; see `high_watermark` for why the client is a new one from here on.
                self._consumer.close()
                self._consumer = new_consumer(self._bootstrap)
                continue
            self.answers += 1
            if high < self.high or low != 0:
                self.steps_back.append((self.high, high))
            self.high = max(self.high, high)
            self._stop.wait(0.02)


def quiet_logger() -> Any:
    """Return a logger that drops librdkafka's lines: lost connections are what these tests are about."""
    import logging

    logger = logging.getLogger("librdkafka")
    logger.disabled = True
    return logger


def new_consumer(bootstrap: str, **options: Any) -> Consumer:
    """Return a consumer without a group's duties, to be assigned by hand."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "by-hand",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 500,
            "logger": quiet_logger(),
            **options,
        }
    )


def high_watermark(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Return a partition's high watermark as soon as a leader tells it.

    Every try is a new client: librdkafka remembers a partition that had no leader when it first asked, and fails
    every later watermark query at once.
    """

    def ask() -> tuple[int] | None:
        consumer = new_consumer(bootstrap)
        try:
            return (int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10.0)[1]),)
        except KafkaException:
            return None
        finally:
            consumer.close()

    return eventually(f"watermarks of {topic}-{partition}", ask)[0]


def read_all(bootstrap: str, topic: str, partition: int = 0) -> list[ReadRecord]:
    """Return every visible record of a partition; fails unless the offsets are dense from 0 to the watermark."""
    high = high_watermark(bootstrap, topic, partition)
    records: list[ReadRecord] = []
    consumer = new_consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(records) < high:
            assert time.monotonic() < deadline, f"read {len(records)} of {high} records of {topic}-{partition}"
            for message in consumer.consume(1_000, 0.5):
                assert message.error() is None, message.error()
                records.append(_read_record(message))
    finally:
        consumer.close()
    assert [record.offset for record in records] == list(range(len(records)))
    return records


def _read_record(message: Message) -> ReadRecord:
    headers = tuple(message.headers() or ())
    return ReadRecord(message.offset(), message.key(), message.value(), headers, message.timestamp())


def check_nothing_acked_is_lost(records: list[ReadRecord], log: AckedLog) -> None:
    """Every acknowledged offset holds exactly the value it was acknowledged for."""
    assert log.acked, "nothing was acknowledged: the test shows nothing"
    assert not log.conflicts
    wrong = {
        offset: (value, records[offset].value if offset < len(records) else "nothing")
        for offset, value in log.acked.items()
        if offset >= len(records) or records[offset].value != value
    }
    assert not wrong, (
        f"{len(wrong)} of {len(log.acked)} acknowledged records are lost, first {sorted(wrong.items())[:3]}"
    )
    missing = log.placeless - {record.value for record in records}
    assert not missing, f"{len(missing)} records acknowledged as duplicates are lost, first {sorted(missing)[:3]}"


def check_no_phantom(records: list[ReadRecord], logs: list[AckedLog]) -> None:
    """Every record that can be read was sent."""
    sent = set().union(*(log.sent for log in logs))
    phantoms = [record for record in records if record.value not in sent]
    assert not phantoms, f"{len(phantoms)} records were never sent, first {phantoms[:3]}"


def check_nothing_twice(records: list[ReadRecord], log: AckedLog) -> None:
    """No value of a producer that never retried is there twice."""
    count = Counter(record.value for record in records if record.value in log.sent)
    twice = [value for value, times in count.items() if times > 1]
    assert not twice, f"{len(twice)} values are there more than once, first {twice[:3]}"
