"""aiokafka, on a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from tests.clients.client import (
    DEADLINE_SECONDS,
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Abilities,
    PolledMember,
    Record,
)

T = TypeVar("T")


class AiokafkaClient:
    """See `Client`."""

    name = "aiokafka"
    abilities = Abilities(transactions=True)

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()
        self._producers: dict[tuple[str, str, bool], AIOKafkaProducer] = {}
        self._admin: AIOKafkaAdminClient | None = None

    def version(self) -> str:
        return aiokafka.__version__

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine on the client's loop."""
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, DEADLINE_SECONDS), self._loop).result()

    async def _started_admin(self) -> AIOKafkaAdminClient:
        if self._admin is None:
            self._admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await self._admin.start()
        return self._admin

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        async def create() -> None:
            wanted = NewTopic(topic, partitions, 3, topic_configs=dict(configs))
            answer = await (await self._started_admin()).create_topics([wanted])
            _raise_any(error[1] for error in answer.topic_errors)

        self.run(create())

    def topics(self) -> dict[str, int]:
        async def describe() -> dict[str, int]:
            described = await (await self._started_admin()).describe_topics()
            return {each["topic"]: len(each["partitions"]) for each in described}

        return self.run(describe())

    def add_partitions(self, topic: str, total: int) -> None:
        async def add() -> None:
            await (await self._started_admin()).create_partitions({topic: NewPartitions(total)})

        self.run(add())

    def set_config(self, topic: str, key: str, value: str) -> None:
        async def alter() -> None:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
            for answer in await (await self._started_admin()).alter_configs([resource]):
                _raise_any(each[0] for each in answer.resources)

        self.run(alter())

    def config(self, topic: str, key: str) -> str:
        async def describe() -> str:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: None})
            [answer] = await (await self._started_admin()).describe_configs([resource])
            [(code, _, _, _, entries)] = answer.resources
            _raise_any([code])
            return str(next(entry[1] for entry in entries if entry[0] == key))

        return self.run(describe())

    def delete_topic(self, topic: str) -> None:
        async def delete() -> None:
            answer = await (await self._started_admin()).delete_topics([topic])
            _raise_any(error[1] for error in answer.topic_error_codes)

        self.run(delete())

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all", idempotent: bool = False
    ) -> list[int]:
        async def send() -> list[int]:
            producer = await self._producer(codec, acks, idempotent)
            sends = [
                await producer.send(
                    topic,
                    None if record.value is None else record.value.encode(),
                    None if record.key is None else record.key.encode(),
                    partition=0,
                    timestamp_ms=record.timestamp,
                    headers=[(name, None if value is None else value.encode()) for name, value in record.headers],
                )
                for record in records
            ]
            answers = await asyncio.gather(*sends)
            # Without acknowledgements there is no offset, and no answer at all.
            return [-1 if answer is None or acks == "0" else answer.offset for answer in answers]

        return self.run(send())

    async def _producer(self, codec: str, acks: str, idempotent: bool) -> AIOKafkaProducer:
        kind = codec, acks, idempotent
        if kind not in self._producers:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                enable_idempotence=idempotent,
                linger_ms=2,
                max_batch_size=4_096,
                # Also how long it tries again.
                request_timeout_ms=60_000,
            )
            await producer.start()
            self._producers[kind] = producer
        return self._producers[kind]

    def fetch(self, topic: str, offset: int, count: int) -> list[Record]:
        async def read() -> list[Record]:
            consumer = await self._consumer()
            partition = TopicPartition(topic, 0)
            try:
                consumer.assign([partition])
                consumer.seek(partition, offset)
                return [_as_record(await consumer.getone()) for _ in range(count)]
            finally:
                await consumer.stop()

        return self.run(read())

    def offset_at(self, topic: str, timestamp: int) -> int:
        async def ask() -> int:
            consumer = await self._consumer()
            partition = TopicPartition(topic, 0)
            try:
                found = (await consumer.offsets_for_times({partition: timestamp}))[partition]
                return -1 if found is None else int(found.offset)
            finally:
                await consumer.stop()

        return self.run(ask())

    async def _consumer(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        return consumer

    def join(self, group: str, topic: str, *, committed: bool = False) -> "AiokafkaMember":
        isolation = "read_committed" if committed else "read_uncommitted"
        return AiokafkaMember(self, self._bootstrap, group, topic, isolation)

    def close(self) -> None:
        async def stop() -> None:
            for producer in self._producers.values():
                await producer.stop()
            if self._admin is not None:
                await self._admin.close()

        self.run(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_SECONDS)
        self._loop.close()


class AiokafkaMember(PolledMember):
    """See `Member`."""

    def __init__(self, client: AiokafkaClient, bootstrap: str, group: str, topic: str, isolation: str) -> None:
        self._client = client
        self._isolation = isolation
        self._bootstrap = bootstrap
        self._group = group
        self._topic = topic
        super().__init__()

    def open(self) -> None:
        async def start() -> AIOKafkaConsumer:
            consumer = AIOKafkaConsumer(
                self._topic,
                bootstrap_servers=self._bootstrap,
                group_id=self._group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                session_timeout_ms=SESSION_TIMEOUT_MS,
                heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
                isolation_level=self._isolation,
                metadata_max_age_ms=2_000,
            )
            await consumer.start()
            return consumer

        self._consumer = self._client.run(start())

    def poll(self) -> tuple[Sequence[Record], set[int]]:
        batches = self._client.run(self._consumer.getmany(timeout_ms=50))
        records = [_as_record(each) for batch in batches.values() for each in batch]
        return records, {each.partition for each in self._consumer.assignment()}

    def commit_position(self) -> str | None:
        try:
            self._client.run(self._consumer.commit())
        except KafkaError as refusal:
            return repr(refusal)
        return None

    def leave(self) -> None:
        self._client.run(self._consumer.stop())


def _raise_any(codes: Any) -> None:
    for code in codes:
        if code:
            raise for_code(code)


def _as_record(message: Any) -> Record:
    headers = tuple((name, _text(value)) for name, value in message.headers)
    place = message.partition, message.offset
    return Record(_text(message.key), _text(message.value), headers, message.timestamp, *place)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
