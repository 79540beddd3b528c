"""confluent-kafka, the Python face of librdkafka."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.clients.client import (
    DEADLINE_SECONDS,
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Abilities,
    PolledMember,
    Record,
)
from tests.process.acked_log import quiet_logger

# librdkafka gives up on a batch that may have been sent, and sends what follows it under the old sequence numbers: an
# idempotent producer may then write twice (its issue 4953). It must not give up within a test.
_MESSAGE_TIMEOUT_MS = 300_000


class LibrdkafkaClient:
    """See `Client`."""

    name = "confluent-kafka"
    abilities = Abilities(transactions=True)

    def __init__(self, bootstrap: str) -> None:
        self._basics = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1_000,
            "logger": quiet_logger(),
        }
        self._producers: dict[tuple[str, str, bool], Producer] = {}
        self._admin = AdminClient(self._basics)

    def version(self) -> str:
        return f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})"

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        wanted = NewTopic(topic, partitions, 3, config=dict(configs))
        self._admin.create_topics([wanted], operation_timeout=30)[topic].result(DEADLINE_SECONDS)

    def topics(self) -> dict[str, int]:
        listed = self._admin.list_topics(timeout=30).topics
        return {name: len(topic.partitions) for name, topic in listed.items()}

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, total)])[topic].result(DEADLINE_SECONDS)

    def set_config(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(DEADLINE_SECONDS)

    def config(self, topic: str, key: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return str(self._admin.describe_configs([resource])[resource].result(DEADLINE_SECONDS)[key].value)

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic], operation_timeout=30)[topic].result(DEADLINE_SECONDS)

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all", idempotent: bool = False
    ) -> list[int]:
        producer = self._producer(codec, acks, idempotent)
        answers: dict[int, tuple[KafkaError | None, int | None]] = {}

        def note(number: int, error: KafkaError | None, message: Message) -> None:
            answers[number] = error, message.offset()

        for number, record in enumerate(records):
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=0,
                headers=list(record.headers),
                timestamp=record.timestamp or 0,
                on_delivery=lambda error, message, number=number: note(number, error, message),
            )
        left = producer.flush(DEADLINE_SECONDS)
        assert left == 0, f"{left} records were not answered"
        errors = [str(error) for error, _ in answers.values() if error is not None]
        assert not errors, errors[:3]
        offsets = [answers[number][1] for number in range(len(records))]
        return [-1 if offset is None or offset < 0 else offset for offset in offsets]

    def _producer(self, codec: str, acks: str, idempotent: bool) -> Producer:
        kind = codec, acks, idempotent
        if kind not in self._producers:
            special: dict[str, Any] = {"compression.type": codec, "acks": acks, "enable.idempotence": idempotent}
            limits = {"linger.ms": 5, "batch.num.messages": 25, "message.timeout.ms": _MESSAGE_TIMEOUT_MS}
            self._producers[kind] = Producer({**self._basics, **special, **limits})
        return self._producers[kind]

    def fetch(self, topic: str, offset: int, count: int) -> list[Record]:
        consumer = self._consumer()
        records: list[Record] = []
        try:
            consumer.assign([TopicPartition(topic, 0, offset)])
            deadline = time.monotonic() + DEADLINE_SECONDS
            while len(records) < count:
                assert time.monotonic() < deadline, f"{len(records)} of {count} records"
                records += [_as_record(message) for message in consumer.consume(count - len(records), 0.5)]
        finally:
            consumer.close()
        return records

    def offset_at(self, topic: str, timestamp: int) -> int:
        consumer = self._consumer()
        try:
            [found] = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=DEADLINE_SECONDS)
            return int(found.offset)
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer({**self._basics, "group.id": "unused", "enable.auto.commit": False})

    def join(self, group: str, topic: str, *, committed: bool = False) -> "LibrdkafkaMember":
        isolation = {"isolation.level": "read_committed" if committed else "read_uncommitted"}
        return LibrdkafkaMember({**self._basics, **isolation}, group, topic)

    def close(self) -> None:
        self._producers.clear()


class LibrdkafkaMember(PolledMember):
    """See `Member`."""

    def __init__(self, basics: Mapping[str, Any], group: str, topic: str) -> None:
        self._topic = topic
        self._config = {
            **basics,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        }
        super().__init__()

    def open(self) -> None:
        self._consumer = Consumer(self._config)
        self._consumer.subscribe([self._topic])

    def poll(self) -> tuple[Sequence[Record], set[int]]:
        messages = self._consumer.consume(50, 0.05)
        records = [_as_record(message) for message in messages if message.error() is None]
        return records, {each.partition for each in self._consumer.assignment()}

    def commit_position(self) -> str | None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as refusal:
            error = refusal.args[0]
            return None if error.code() == KafkaError._NO_OFFSET else str(error)
        return None

    def leave(self) -> None:
        self._consumer.close()


def _as_record(message: Message) -> Record:
    error = message.error()
    assert error is None, error
    headers = tuple((name, _text(value)) for name, value in message.headers() or ())
    place = message.partition(), message.offset()
    return Record(_text(message.key()), _text(message.value()), headers, message.timestamp()[1], *place)


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
