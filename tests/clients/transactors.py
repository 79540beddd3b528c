"""Transactional producers of the clients that have them; `TRANSACTORS` makes one by the name of its client.

librdkafka's, aiokafka's and kafka-python's are here; the programs in other languages have the commands `txn_open`,
`txn_begin`, `txn_send`, `txn_end`, `txn_transform` and `txn_close`, with the arguments of `Transactor`.
"""

import asyncio
import itertools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.client import DEADLINE_SECONDS, SESSION_TIMEOUT_MS
from tests.clients.line_client import LineClient
from tests.process.acked_log import quiet_logger
from tests.process.kafka_python import KafkaConsumer, KafkaProducer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.structs import OffsetAndMetadata

_numbers = itertools.count()


class Transactor(Protocol):
    """A producer with a transactional id; made, it has ended what a former one of the same id has left open."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, values: Sequence[str]) -> None:
        """Write values to partition 0, in the transaction that is open, and wait until each is answered."""

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction; raises if another producer has begun with the same id."""

    def transform(self, group: str, source: str, target: str, count: int, *, commit: bool) -> None:
        """Read so many records as a group at read_committed, and write each value in capitals to partition 0.

        The values and the group's offsets are one transaction, which is committed or aborted.
        """

    def close(self) -> None:
        """Give back what it holds; a transaction stays open."""


class LibrdkafkaTransactor:
    """See `Transactor`."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._basics = {"bootstrap.servers": bootstrap, "logger": quiet_logger()}
        self._producer = Producer({**self._basics, "transactional.id": transactional_id, "linger.ms": 2})
        self._producer.init_transactions(DEADLINE_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[str]) -> None:
        for value in values:
            self._producer.produce(topic, value.encode(), partition=0)
        assert self._producer.flush(DEADLINE_SECONDS) == 0, "records were not answered"

    def end(self, *, commit: bool) -> None:
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        end(DEADLINE_SECONDS)

    def transform(self, group: str, source: str, target: str, count: int, *, commit: bool) -> None:
        reading = {"group.id": group, "auto.offset.reset": "earliest", "session.timeout.ms": SESSION_TIMEOUT_MS}
        exact = {"enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = Consumer({**self._basics, **reading, **exact})
        try:
            consumer.subscribe([source])
            messages: list[Message] = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while len(messages) < count:
                assert time.monotonic() < deadline, f"{len(messages)} of {count} records"
                messages += [each for each in consumer.consume(count - len(messages), 0.5) if each.error() is None]
            self.begin()
            self.send(target, [(message.value() or b"").decode().upper() for message in messages])
            ends = {message.partition() or 0: (message.offset() or 0) + 1 for message in messages}
            offsets = [TopicPartition(source, partition, end) for partition, end in ends.items()]
            self._producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), DEADLINE_SECONDS)
            self.end(commit=commit)
        finally:
            consumer.close()

    def close(self) -> None:
        del self._producer


class AiokafkaTransactor:
    """See `Transactor`; aiokafka's offsets have no generation, so its partitions are assigned by hand."""

    def __init__(self, client: AiokafkaClient, bootstrap: str, transactional_id: str) -> None:
        self._bootstrap = bootstrap
        self._run = client.run

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
            await producer.start()
            return producer

        self._producer = self._run(start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, values: Sequence[str]) -> None:
        self._run(self._send(topic, values))

    async def _send(self, topic: str, values: Sequence[str]) -> None:
        await asyncio.gather(*[await self._producer.send(topic, value.encode(), partition=0) for value in values])

    def end(self, *, commit: bool) -> None:
        self._run(self._producer.commit_transaction() if commit else self._producer.abort_transaction())

    def transform(self, group: str, source: str, target: str, count: int, *, commit: bool) -> None:
        async def transform() -> None:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            )
            async with consumer:
                places = await self._producer.partitions_for(source)
                consumer.assign([AiokafkaPartition(source, each) for each in places])
                records = [await consumer.getone() for _ in range(count)]
                await self._producer.begin_transaction()
                await self._send(target, [each.value.decode().upper() for each in records])
                ends = {AiokafkaPartition(source, each.partition): each.offset + 1 for each in records}
                await self._producer.send_offsets_to_transaction(ends, group)
                if commit:
                    await self._producer.commit_transaction()
                else:
                    await self._producer.abort_transaction()

        self._run(transform())

    def close(self) -> None:
        self._run(self._producer.stop())


class KafkaPythonTransactor:
    """See `Transactor`."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._bootstrap = bootstrap.split(",")
        self._producer = KafkaProducer(bootstrap_servers=self._bootstrap, transactional_id=transactional_id)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[str]) -> None:
        sends = [self._producer.send(topic, value.encode(), partition=0) for value in values]
        for each in sends:
            each.get(DEADLINE_SECONDS)

    def end(self, *, commit: bool) -> None:
        end = self._producer.commit_transaction if commit else self._producer.abort_transaction
        end()

    def transform(self, group: str, source: str, target: str, count: int, *, commit: bool) -> None:
        consumer = KafkaConsumer(
            source,
            bootstrap_servers=self._bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )
        try:
            records: list[Any] = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while len(records) < count:
                assert time.monotonic() < deadline, f"{len(records)} of {count} records"
                for batch in consumer.poll(timeout_ms=500, max_records=count - len(records)).values():
                    records += batch
            self.begin()
            self.send(target, [each.value.decode().upper() for each in records])
            ends = {each.partition: each.offset + 1 for each in records}
            partitions = {each.partition: each for each in consumer.assignment()}
            offsets = {partitions[number]: OffsetAndMetadata(end, "", -1) for number, end in ends.items()}
            self._producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            self.end(commit=commit)
        finally:
            consumer.close()

    def close(self) -> None:
        # A transaction that is open would be waited for.
        self._producer.close(0)


class LineTransactor:
    """See `Transactor`."""

    def __init__(self, client: LineClient, transactional_id: str) -> None:
        self._client = client
        self._name = f"transactor-{next(_numbers)}"
        self._ask("txn_open", transactional_id=transactional_id)

    def _ask(self, do: str, **words: Any) -> None:
        self._client.ask(do, transactor=self._name, **words)

    def begin(self) -> None:
        self._ask("txn_begin")

    def send(self, topic: str, values: Sequence[str]) -> None:
        self._ask("txn_send", topic=topic, values=list(values))

    def end(self, *, commit: bool) -> None:
        self._ask("txn_end", commit=commit)

    def transform(self, group: str, source: str, target: str, count: int, *, commit: bool) -> None:
        self._ask("txn_transform", group=group, topic=source, target=target, count=count, commit=commit)

    def close(self) -> None:
        self._ask("txn_close")


def _line(client: Any, _: str, transactional_id: str) -> Transactor:
    return LineTransactor(client, transactional_id)


# By client: makes one of it, given the client, the brokers and the transactional id.
TRANSACTORS: Mapping[str, Callable[[Any, str, str], Transactor]] = {
    "confluent-kafka": lambda _, bootstrap, name: LibrdkafkaTransactor(bootstrap, name),
    "aiokafka": AiokafkaTransactor,
    "kafka-python": lambda _, bootstrap, name: KafkaPythonTransactor(bootstrap, name),
    "Java": _line,
    "franz-go": _line,
}
