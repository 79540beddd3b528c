"""kafka-python."""

import importlib.metadata
import socket
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tests.clients.client import (
    ALL_CODECS,
    DEADLINE_SECONDS,
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Abilities,
    PolledMember,
    Record,
)
from tests.process.kafka_python import ConfigResource, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import KafkaError
    from kafka.net.inet import KafkaNetSocket

# Its codecs are packages of their own.
_CODEC_PACKAGES = {"snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}
_QUICK = {"reconnect_backoff_max_ms": 500, "metadata_max_age_ms": 2_000}
# 3.0.12 never ends a join during which a poll comes to its end: the member sends no heartbeat any more, and waits. So
# polls are longer than joins.
_POLL_MS = 500


def _has(codec: str) -> bool:
    try:
        return codec not in _CODEC_PACKAGES or bool(importlib.metadata.version(_CODEC_PACKAGES[codec]))
    except importlib.metadata.PackageNotFoundError:
        return False


class KafkaPythonClient:
    """See `Client`."""

    name = "kafka-python"
    abilities = Abilities(
        codecs=tuple(codec for codec in ALL_CODECS if _has(codec)), null_headers=False, transactions=True
    )

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap.split(",")
        self._producers: dict[tuple[str, str, bool], KafkaProducer] = {}
        self._made_admin: KafkaAdminClient | None = None
        self._sockets: list[socket.socket] = []
        self._make_socket = KafkaNetSocket.socket
        self._remember_sockets()

    def _remember_sockets(self) -> None:
        """Have each socket closed at the end: one to a dead broker kafka-python leaves to the collector."""
        make, sockets = self._make_socket, self._sockets

        def remembered(net: KafkaNetSocket, *arguments: Any) -> socket.socket:
            sockets.append(make(net, *arguments))
            return sockets[-1]

        KafkaNetSocket.socket = remembered

    def version(self) -> str:
        return importlib.metadata.version("kafka-python")

    @property
    def _admin(self) -> KafkaAdminClient:
        if self._made_admin is None:
            self._made_admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        return self._made_admin

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": 3, "configs": dict(configs)}
        self._admin.create_topics({topic: wanted}, timeout_ms=30_000)

    def topics(self) -> dict[str, int]:
        return {each["name"]: len(each["partitions"]) for each in self._admin.describe_topics()}

    def add_partitions(self, topic: str, total: int) -> None:
        self._admin.create_partitions({topic: total}, timeout_ms=30_000)

    def set_config(self, topic: str, key: str, value: str) -> None:
        self._admin.alter_configs([ConfigResource("TOPIC", topic, {key: value})])

    def config(self, topic: str, key: str) -> str:
        described = self._admin.describe_configs([ConfigResource("TOPIC", topic)], config_filter="all")
        return str(described["topic"][topic][key]["value"])

    def delete_topic(self, topic: str) -> None:
        self._admin.delete_topics([topic], timeout_ms=30_000)

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all", idempotent: bool = False
    ) -> list[int]:
        producer = self._producer(codec, acks, idempotent)
        sends = [
            producer.send(
                topic,
                None if record.value is None else record.value.encode(),
                None if record.key is None else record.key.encode(),
                [(name, None if value is None else value.encode()) for name, value in record.headers],
                0,
                record.timestamp,
            )
            for record in records
        ]
        return [send.get(DEADLINE_SECONDS).offset for send in sends]

    def _producer(self, codec: str, acks: str, idempotent: bool) -> KafkaProducer:
        kind = codec, acks, idempotent
        if kind not in self._producers:
            self._producers[kind] = KafkaProducer(
                bootstrap_servers=self._bootstrap,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=idempotent,
                linger_ms=2,
                batch_size=4_096,
                delivery_timeout_ms=60_000,
                # By default it does not try again without idempotence.
                retries=1_000 if acks != "0" else 0,
                **_QUICK,
            )
        return self._producers[kind]

    def fetch(self, topic: str, offset: int, count: int) -> list[Record]:
        consumer = self._consumer()
        partition = TopicPartition(topic, 0)
        records: list[Record] = []
        try:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            deadline = time.monotonic() + DEADLINE_SECONDS
            while len(records) < count:
                assert time.monotonic() < deadline, f"{len(records)} of {count} records"
                for batch in consumer.poll(timeout_ms=500, max_records=count - len(records)).values():
                    records += [_as_record(each) for each in batch]
        finally:
            consumer.close()
        return records

    def offset_at(self, topic: str, timestamp: int) -> int:
        consumer = self._consumer()
        partition = TopicPartition(topic, 0)
        try:
            found = consumer.offsets_for_times({partition: timestamp})[partition]
            return -1 if found is None else int(found.offset)
        finally:
            consumer.close()

    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(bootstrap_servers=self._bootstrap, auto_offset_reset="none", group_id=None, **_QUICK)

    def join(self, group: str, topic: str, *, committed: bool = False) -> "KafkaPythonMember":
        return KafkaPythonMember(self._bootstrap, group, topic, "read_committed" if committed else "read_uncommitted")

    def close(self) -> None:
        for producer in self._producers.values():
            producer.close(10)
        if self._made_admin is not None:
            self._made_admin.close()
        KafkaNetSocket.socket = self._make_socket
        for each in self._sockets:
            each.close()


class KafkaPythonMember(PolledMember):
    """See `Member`."""

    def __init__(self, bootstrap: list[str], group: str, topic: str, isolation: str) -> None:
        self._config = {"bootstrap_servers": bootstrap, "group_id": group, "isolation_level": isolation}
        self._topic = topic
        super().__init__()

    def open(self) -> None:
        self._consumer = KafkaConsumer(
            self._topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            **self._config,
            **_QUICK,
        )
        # A leader that does not know the topic yet assigns nothing and joins once more, while polls go on.
        self._consumer.partitions_for_topic(self._topic)

    def poll(self) -> tuple[Sequence[Record], set[int]]:
        batches = self._consumer.poll(timeout_ms=_POLL_MS)
        records = [_as_record(each) for batch in batches.values() for each in batch]
        return records, {each.partition for each in self._consumer.assignment()}

    def commit_position(self) -> str | None:
        try:
            self._consumer.commit()
        except KafkaError as refusal:
            return repr(refusal)
        return None

    def leave(self) -> None:
        self._consumer.close()


def _as_record(message: Any) -> Record:
    headers = tuple((name, _text(value)) for name, value in message.headers)
    place = message.partition, message.offset
    return Record(_text(message.key), _text(message.value), headers, message.timestamp, *place)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
