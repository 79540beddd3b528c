"""The compacted topic `_schemas` with Confluent's records, and what a registry knows once it has read them.

A write waits until the registry has read its own record, as Confluent's does. If a write fails, its record may be in
the topic all the same. Therefore the next write first reads the topic to its end.
"""

import json
import threading
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from raftka.kafka import client as kafka_client
from tests.ecosystem.brokers import REPLICAS
from tests.process.acked_log import quiet_logger
from tests.process.kafka_topics import request_topic

TOPIC = "_schemas"
_WRITE_SECONDS = 30.0
_POLL_SECONDS = 0.2
_NOOP = {"keytype": "NOOP", "magic": 0}


class StoreError(Exception):
    """A record was perhaps not written; the caller may try again."""


@dataclass(slots=True)
class Version:
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: str
    is_deleted: bool


@dataclass(slots=True)
class Schemas:
    """What the records of the topic say, one after the other.

    Attributes:
        versions: By subject and number; a permanently deleted one is gone.
        compatibility: The level of each subject that has one.
        largest_id: Of all schemas so far, even of those that are gone.
    """

    versions: dict[tuple[str, int], Version] = field(default_factory=dict)
    compatibility: dict[str, str] = field(default_factory=dict)
    largest_id: int = 0

    def apply(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        """Take a record."""
        kind, subject = key["keytype"], key.get("subject")
        if kind == "SCHEMA":
            place = (str(subject), int(key["version"]))
            if value is None:
                self.versions.pop(place, None)
            else:
                self.versions[place] = Version(*place, value["id"], value["schema"], value["deleted"])
                self.largest_id = max(self.largest_id, value["id"])
        elif kind == "DELETE_SUBJECT" and value is not None:
            for each in self.of(str(subject)):
                each.is_deleted |= each.version <= value["version"]
        elif kind == "CONFIG" and value is not None:
            self.compatibility[str(subject)] = value["compatibilityLevel"]

    def of(self, subject: str) -> list[Version]:
        """Return the versions of a subject in order, and those that are deleted but not permanently."""
        return [each for place, each in sorted(self.versions.items()) if place[0] == subject]

    def with_id(self, schema_id: int) -> Version | None:
        """Return a version with this schema."""
        return next((each for each in self.versions.values() if each.schema_id == schema_id), None)

    def id_of(self, schema: str) -> int:
        """Return the id of a schema, which is the same in all subjects; the next one if it is new."""
        found = (each.schema_id for each in self.versions.values() if each.schema == schema)
        return next(found, self.largest_id + 1)


class SchemasTopic:
    """Reads the topic in a thread, and writes to it; one caller at a time writes.

    Attributes:
        schemas: What was read so far.
    """

    def __init__(self, bootstrap: str) -> None:
        self.schemas = Schemas()
        options = {"bootstrap.servers": bootstrap, "logger": quiet_logger(), "reconnect.backoff.max.ms": 500}
        durable = {"acks": "all", "enable.idempotence": True, "delivery.timeout.ms": int(_WRITE_SECONDS * 1_000)}
        self._producer = Producer({**options, **durable, "linger.ms": 0})
        by_hand = {"group.id": "by-hand", "enable.auto.commit": False, "auto.offset.reset": "error"}
        self._consumer = Consumer({**options, **by_hand})
        self._bootstrap = bootstrap
        self._next_offset = 0
        self._has_read = threading.Condition()
        self._is_unsure = False

    def open(self) -> None:
        """Create the topic if there is none, and read it to its end.

        Raises:
            StoreError: It was not read in time.
        """
        if TOPIC not in kafka_client.read_cluster(self._bootstrap).topics:
            request_topic(self._bootstrap, NewTopic(TOPIC, 1, REPLICAS, config={"cleanup.policy": "compact"}))
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        threading.Thread(target=self._read, name="schemas", daemon=True).start()
        self._write(_NOOP, None)

    def write(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        """Write a record, and wait until it is read; no value is a tombstone.

        Raises:
            StoreError: The record was not written or not read in time.
        """
        self.read_to_end_if_unsure()
        self._write(key, value)

    def read_to_end_if_unsure(self) -> None:
        """Read to the end if a write has failed: its record may be there.

        Raises:
            StoreError: The end was not reached in time.
        """
        if self._is_unsure:
            self._write(_NOOP, None)
            self._is_unsure = False

    def _write(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        offsets: list[int] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(message.offset() or 0)

        body = None if value is None else _json(value)
        self._producer.produce(TOPIC, body, _json(key), partition=0, on_delivery=on_delivery)
        self._producer.flush(_WRITE_SECONDS)
        with self._has_read:
            is_read = bool(offsets) and self._has_read.wait_for(lambda: self._next_offset > offsets[0], _WRITE_SECONDS)
        if not is_read:
            self._is_unsure = True
            raise StoreError("the record was not written" if not offsets else "the record was not read")

    def _read(self) -> None:
        while True:
            message = self._consumer.poll(_POLL_SECONDS)
            if message is None or message.error() is not None:
                continue
            body = message.value()
            with self._has_read:
                self.schemas.apply(json.loads(message.key() or b""), None if body is None else json.loads(body))
                self._next_offset = (message.offset() or 0) + 1
                self._has_read.notify_all()


def _json(value: dict[str, Any]) -> bytes:
    # Compaction compares keys byte by byte.
    return json.dumps(value, separators=(",", ":")).encode()
