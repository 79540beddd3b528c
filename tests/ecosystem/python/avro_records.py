"""Writes and reads Avro records with Confluent's serializer and deserializer, which register and look up schemas.

    python avro_records.py {write|read} BOOTSTRAP REGISTRY TOPIC

`write` goes on until its standard input ends. Each round has a subject with two versions and records of both, another
level of compatibility of one subject, and a subject that it deletes permanently some seconds later. `read` prints all
subjects with their versions, and all records of the topic.
"""

import json
import sys
import threading
import time
from collections import deque
from itertools import count
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

_CONFIGURED = "Configured"
_LEVELS = ("BACKWARD", "FORWARD", "FULL", "NONE")
_VALUES = 3
# By then the segment with the schema has ended, and passes have read it.
_KEPT_SECONDS = 12.0
_FLUSH_SECONDS = 120.0
_NOT_FOUND = 404


def _client(registry: str) -> SchemaRegistryClient:
    # The registry and its brokers are killed: each call is tried until it succeeds.
    return SchemaRegistryClient({"url": registry, "timeout": 90, "max.retries": 300, "retries.max.wait.ms": 500})


def _say(**report: Any) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


def _schema(name: str, version: int) -> str:
    fields: list[dict[str, Any]] = [{"name": "number", "type": "long"}]
    if version > 1:
        fields.append({"name": "unit", "type": "string", "default": "C"})
    return json.dumps({"type": "record", "name": name, "fields": fields})


class _Writer:
    def __init__(self, bootstrap: str, registry: str, topic: str) -> None:
        self._client = _client(registry)
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
        self._topic = topic
        # Subjects that are to be deleted, with the time from which on.
        self._leaving: deque[tuple[float, str]] = deque()

    def write_round(self, number: int) -> None:
        for version in (1, 2):
            self._write_records(f"Reading{number}", version)
        level = _LEVELS[number % len(_LEVELS)]
        self._client.set_compatibility(_CONFIGURED, level)
        _say(level=level)
        self._register(f"Gone{number}")
        while self._leaving and self._leaving[0][0] <= time.monotonic():
            self._delete(self._leaving.popleft()[1])

    def _write_records(self, subject: str, version: int) -> None:
        schema = _schema(subject, version)
        serialize = AvroSerializer(self._client, schema, conf={"subject.name.strategy": record_subject_name_strategy})
        values = [{"number": number, **({"unit": "K"} if version > 1 else {})} for number in range(_VALUES)]
        payload = b""
        for value in values:
            payload = serialize(value, SerializationContext(self._topic, MessageField.VALUE)) or b""
            self._producer.produce(self._topic, payload, subject)
        if self._producer.flush(_FLUSH_SECONDS):
            raise SystemExit("records were not delivered")
        schema_id = int.from_bytes(payload[1:5], "big")
        _say(subject=subject, version=version, id=schema_id, schema=schema, values=values)

    def _register(self, subject: str) -> None:
        schema = _schema(subject, 1)
        schema_id = self._client.register_schema(subject, Schema(schema, "AVRO"))
        _say(subject=subject, version=1, id=schema_id, schema=schema)
        self._leaving.append((time.monotonic() + _KEPT_SECONDS, subject))

    def _delete(self, subject: str) -> None:
        for is_permanent in (False, True):
            try:
                self._client.delete_subject(subject, permanent=is_permanent)
            except SchemaRegistryError as error:
                # An earlier try of this call has done it, and its answer was lost.
                if error.http_status_code != _NOT_FOUND:
                    raise
        _say(deleted=subject)


def _write(bootstrap: str, registry: str, topic: str) -> None:
    is_over = threading.Event()

    def wait_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_end, daemon=True).start()
    writer = _Writer(bootstrap, registry, topic)
    for number in count():
        if is_over.is_set():
            return
        writer.write_round(number)


def _read(bootstrap: str, registry: str, topic: str) -> None:
    client = _client(registry)
    _say(subjects=client.get_subjects(deleted=True))
    for subject in client.get_subjects():
        for version in client.get_versions(subject):
            found = client.get_version(subject, version)
            _say(subject=subject, version=version, id=found.schema_id, schema=found.schema.schema_str)
    _say(level=client.get_compatibility(_CONFIGURED))
    deserialize = AvroDeserializer(client, conf={"subject.name.strategy": record_subject_name_strategy})
    options = {"group.id": "by-hand", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **options})
    partitions = consumer.list_topics(topic, _FLUSH_SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    ended = 0
    while ended < len(partitions):
        for message in consumer.consume(100, 1.0):
            if message.error() is not None:
                ended += 1
                continue
            value = deserialize(message.value(), SerializationContext(topic, MessageField.VALUE))
            _say(subject=(message.key() or b"").decode(), value=value)
    consumer.close()


if __name__ == "__main__":
    _task, *_arguments = sys.argv[1:]
    {"write": _write, "read": _read}[_task](*_arguments)
