"""The producers and the readers of the story: they remember what was promised and what was seen."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_POLL_SECONDS = 0.05
_OUTCOME_SECONDS = 20.0
_PAYLOAD = b"." * 100


@dataclass(frozen=True, slots=True)
class Acked:
    """One acknowledgement.

    Attributes:
        key: Of the record.
        offset: Where the broker says it is; -1: it was not asked (acks=0).
        sent_at: When it was handed to librdkafka, in seconds of time.monotonic().
        acked_at: When the answer came.
    """

    key: str
    offset: int
    sent_at: float
    acked_at: float


@dataclass(slots=True)
class Ledger:
    """What happened to the records of one writer. One without an acknowledgement may be in the log or not."""

    level: str
    sent: set[str] = field(default_factory=set)
    acked: list[Acked] = field(default_factory=list)


class Writer:
    """Writes numbered records at one level of acks; its ledger is complete once `stop` or `write_singly` returned."""

    def __init__(self, brokers: str, topic: str, level: str, name: str) -> None:
        self.ledger = Ledger(level)
        self._topic = topic
        self._name = name
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._pause = 0.0
        self._producer = kafka_client.new_producer(
            brokers,
            level,
            linger_ms=0,
            message_timeout_ms=int(_OUTCOME_SECONDS * 1000),
            # After a broker has died, what matters is how soon the others serve, not how long the client waits.
            retry_backoff_ms=20,
            retry_backoff_max_ms=100,
            topic_metadata_refresh_fast_interval_ms=50,
        )

    def write_singly(self, count: int) -> list[float]:
        """Write one record, then `count` more, each after the answer to the one before.

        Returns the sorted latencies of those `count`, in ms.

        Raises:
            KafkaClientError: A record had no answer in time.
        """
        # The first one also connects and asks for the leader: no part of what a level costs.
        for _ in range(1 + count):
            answered = len(self.ledger.acked)
            self._send()
            deadline = time.monotonic() + _OUTCOME_SECONDS
            while len(self.ledger.acked) == answered:
                if time.monotonic() >= deadline:
                    raise KafkaClientError(f"a record at acks={self.ledger.level} had no answer in time")
                self._producer.poll(_POLL_SECONDS)
        return sorted(1000 * (each.acked_at - each.sent_at) for each in self.ledger.acked[1:])

    def start(self, pause: float) -> None:
        """Begin to write, `pause` seconds between two records, without waiting for answers."""
        self._pause = pause
        self._thread.start()

    def stop(self) -> None:
        """Write no more, and wait until each record has an outcome."""
        self._halt.set()
        self._thread.join()
        deadline = time.monotonic() + _OUTCOME_SECONDS
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.flush(_POLL_SECONDS)

    def answered_since(self, moment: float) -> float | None:
        """Return when the first record that was sent after a moment was acknowledged; None: not yet."""
        return min((each.acked_at for each in tuple(self.ledger.acked) if each.sent_at > moment), default=None)

    def _run(self) -> None:
        while not self._halt.is_set():
            self._send()
            # The pause, spent on taking answers.
            until = time.monotonic() + self._pause
            while (left := until - time.monotonic()) > 0:
                self._producer.poll(left)

    def _send(self) -> None:
        key = f"{self._name}-{len(self.ledger.sent)}"
        # Known as sent before it is: an answer may come at once.
        self.ledger.sent.add(key)
        on_delivery = self._recorder(key, time.monotonic())
        while True:
            try:
                return self._producer.produce(self._topic, _PAYLOAD, key=key, on_delivery=on_delivery)
            except BufferError:
                self._producer.poll(_POLL_SECONDS)

    def _recorder(self, key: str, sent_at: float) -> "Callable[[KafkaError | None, Message], None]":
        def record(error: "KafkaError | None", message: "Message") -> None:
            if error is None:
                offset = kafka_client.delivered_offset(message)
                self.ledger.acked.append(Acked(key, offset, sent_at, time.monotonic()))

        return record


class Tail:
    """Reads partition 0 from its start, at the same time as others write; remembers what it was shown."""

    def __init__(self, brokers: str, topic: str) -> None:
        self.seen: dict[int, str] = {}
        self._brokers = brokers
        self._topic = topic
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._halt.set()
        self._thread.join()

    def _run(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        consumer = kafka_client.new_consumer(self._brokers, fetch_wait_max_ms=50)
        try:
            consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
            while not self._halt.is_set():
                for message in consumer.consume(500, _POLL_SECONDS):
                    # Errors pass by themselves here: a broker is killed while this reads.
                    if message.error() is None:
                        _note(self.seen, message)
        finally:
            consumer.close()


def read_all(brokers: str, topic: str, seconds: float = _OUTCOME_SECONDS) -> dict[int, str]:
    """Return key by offset of everything in partition 0 up to its present end.

    Raises:
        KafkaClientError: The end was not reached in time.
    """
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    found: dict[int, str] = {}
    consumer = kafka_client.new_consumer(brokers, enable_partition_eof=True)
    deadline = time.monotonic() + seconds
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, _POLL_SECONDS):
                error = message.error()
                if error is None:
                    _note(found, message)
                elif error.name() == "_PARTITION_EOF":
                    return found
    finally:
        consumer.close()
    raise KafkaClientError(f"topic {topic} could not be read to its end within {seconds:.0f} s")


def _note(records: dict[int, str], message: "Message") -> None:
    offset, key = message.offset(), message.key()
    assert offset is not None
    records[offset] = key.decode(errors="replace") if isinstance(key, bytes) else str(key)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison of promises with the log shows.

    Attributes:
        records: How many records the log has.
        acked: Acknowledged records by level.
        missing: Keys that were acknowledged and are not in the log, by level.
        misplaced: Keys acknowledged at acks=all that are there, but not at the promised offset.
        phantoms: Keys in the log that nobody sent.
        vanished: Keys that a reader was shown at an offset where something else, or nothing, is now.
        repeated: How many records are in the log again: retries whose first try had worked.
    """

    records: int
    acked: dict[str, int]
    missing: dict[str, list[str]]
    misplaced: list[str]
    phantoms: list[str]
    vanished: list[str]
    repeated: int

    @property
    def broken_promises(self) -> list[str]:
        """What must never happen and did, in words; empty if all is well."""
        findings = (
            (self.missing.get("all", []), "acknowledged at acks=all and gone"),
            (self.misplaced, "acknowledged at acks=all and not at its offset"),
            (self.phantoms, "in the log and sent by nobody"),
            (self.vanished, "shown to a reader and gone"),
        )
        return [f"{len(keys)} x {what}: {', '.join(keys[:5])}" for keys, what in findings if keys]


def judge(ledgers: Iterable[Ledger], log: dict[int, str], seen: dict[int, str]) -> Verdict:
    """Compare what was promised and shown with what the log has (key by offset)."""
    keys = set(log.values())
    sent: set[str] = set()
    acked: dict[str, int] = {}
    missing: dict[str, list[str]] = {}
    misplaced = []
    for ledger in ledgers:
        sent |= ledger.sent
        acked[ledger.level] = acked.get(ledger.level, 0) + len(ledger.acked)
        for each in ledger.acked:
            if each.key not in keys:
                missing.setdefault(ledger.level, []).append(each.key)
            elif ledger.level == "all" and log.get(each.offset) != each.key:
                misplaced.append(each.key)
    return Verdict(
        records=len(log),
        acked=acked,
        missing=missing,
        misplaced=misplaced,
        phantoms=sorted(keys - sent),
        vanished=[key for offset, key in sorted(seen.items()) if log.get(offset) != key],
        repeated=len(log) - len(keys),
    )
