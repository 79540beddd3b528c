"""A producer with a transactional id, by either protocol, and a reader at read_committed.

TV1 and TV2 are levels of Kafka's `transaction.version`: a client of TV1 adds partitions to its transaction itself, one
of TV2 (KIP-890) leaves that to the leader that takes its batch. One client speaks both here, so that they differ in
nothing else.
"""

import asyncio
import os
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

from benchmarks.cluster import DEADLINE_SECONDS, TOPIC, BenchmarkError
from benchmarks.wire.connection import WireConnection
from benchmarks.wire.group_member import TRANSACTION_KEY, find_coordinator
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FetchRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from model.key_value_batch import KeyValue, encode_key_values
from model.record_batch import CRC_START, HEADER_BYTES, TRANSACTIONAL_MASK, BatchProducer, read_header

VALUE_BYTES = 1024
_ADD, _FETCH = 3, 11
_TIMEOUT_MS = 60_000
_PRODUCE_MS = 30_000
_READ_COMMITTED = 1
_FETCH_MS, _FETCH_BYTES = 500, 4 * 1024 * 1024
# What Kafka's own producer waits before it asks again while the markers of its last transaction are being written.
_BUSY_SECONDS = 0.02
_AWAY_SECONDS = 0.1
_AGAIN = {
    ErrorCode.CONCURRENT_TRANSACTIONS: _BUSY_SECONDS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _AWAY_SECONDS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _AWAY_SECONDS,
    # What a partition's leader says if the coordinator did not admit the batch in time; producers' retry.backoff.ms.
    ErrorCode.NOT_ENOUGH_REPLICAS: _AWAY_SECONDS,
}
# Fields of a batch's header that differ from one sending to the next: producer id, epoch, base sequence; the CRC.
_PRODUCER, _PRODUCER_AT = struct.Struct(">qhi"), 43
_CRC, _CRC_AT = struct.Struct(">I"), 17


class DisturbedError(BenchmarkError):
    """A broker refused what it would have taken if nothing had disturbed it; the run does not count."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The versions of the requests that differ, and whether the client adds partitions itself."""

    name: str
    init: int
    produce: int
    end: int
    is_adding: bool


TV1 = Protocol("TV1", init=4, produce=11, end=4, is_adding=True)
TV2 = Protocol("TV2", init=5, produce=12, end=5, is_adding=False)


@dataclass(slots=True)
class Identity:
    """Who the producer is, and its next sequence number, which is that of each partition."""

    producer_id: int
    epoch: int
    sequence: int = 0


class Transactor:
    """Make it with `begun`. Each transaction writes one batch to each partition of the topic.

    Attributes:
        retries: Requests that were sent again because the last transaction was not complete.
    """

    def __init__(self, name: str, protocol: Protocol, identity: Identity, coordinator: WireConnection) -> None:
        self.retries = 0
        self._name = name
        self._protocol = protocol
        self._identity = identity
        self._coordinator = coordinator
        self._leaders: dict[WireConnection, list[int]] = {}
        self._batch = bytearray()
        self._count = 0

    @classmethod
    async def begun(
        cls, bootstrap: str, name: str, protocol: Protocol, leaders: Sequence[str], records: int
    ) -> "Transactor":
        """Become the only producer of a transactional id.

        Args:
            bootstrap: HOST:PORT,... of all brokers.
            name: The transactional id.
            protocol: TV1 or TV2.
            leaders: HOST:PORT of the leader of each partition.
            records: Of one transaction, of VALUE_BYTES each; a multiple of the number of partitions.

        Raises:
            BenchmarkError: No broker coordinates it, or the coordinator refuses it.
        """
        coordinator = await WireConnection.open(await find_coordinator(bootstrap, name, TRANSACTION_KEY))
        found = cls(name, protocol, Identity(-1, -1), coordinator)
        found._identity = await init_producer(coordinator, name, protocol)
        for address in sorted(set(leaders)):
            led = [number for number, leader in enumerate(leaders) if leader == address]
            found._leaders[await WireConnection.open(address)] = led
        found._count = records // len(leaders)
        found._batch = _new_batch(found._count)
        return found

    async def write(self) -> Mapping[int, int]:
        """Begin a transaction: write its records; return the offset behind them by partition.

        Raises:
            DisturbedError: They are refused.
        """
        partitions = [number for led in self._leaders.values() for number in led]
        if self._protocol.is_adding:
            await self._add(partitions)
        batch = self._next_batch()
        each = (self._produce(connection, led, batch) for connection, led in self._leaders.items())
        return {number: base + self._count for bases in await asyncio.gather(*each) for number, base in bases.items()}

    async def commit(self) -> None:
        """Commit the transaction; returns when the coordinator has answered.

        Raises:
            DisturbedError: It refuses.
        """
        identity = self._identity
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=True,
        )
        answer = await self._ask(ApiKey.END_TXN, self._protocol.end, request, lambda said: [said.error_code])
        if not self._protocol.is_adding:
            # KIP-890: each end raises the epoch, and sequences begin anew.
            self._identity = Identity(answer.producer_id, answer.producer_epoch)

    async def close(self) -> None:
        """End the connections."""
        for connection in (self._coordinator, *self._leaders):
            await connection.close()

    async def _add(self, partitions: Sequence[int]) -> None:
        request = add_partitions(self._name, self._identity, partitions)
        await self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, _ADD, request, added_codes)

    async def _ask(self, key: ApiKey, version: int, request: Any, codes_of: Callable[[Any], Iterable[int]]) -> Any:
        while True:
            answer = await self._coordinator.call(key, version, request)
            code = next((each for each in codes_of(answer) if each), 0)
            if not code:
                return answer
            await self._wait_for_another(key, code)

    async def _wait_for_another(self, key: ApiKey, code: int) -> None:
        if code not in _AGAIN:
            raise DisturbedError(f"{key.name} of {self._name}: error {code}")
        self.retries += 1
        await asyncio.sleep(_AGAIN[ErrorCode(code)])

    def _next_batch(self) -> bytes:
        identity, batch = self._identity, self._batch
        _PRODUCER.pack_into(batch, _PRODUCER_AT, identity.producer_id, identity.epoch, identity.sequence)
        _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
        identity.sequence += self._count
        return bytes(batch)

    async def _produce(self, connection: WireConnection, led: Sequence[int], batch: bytes) -> dict[int, int]:
        """Write a batch to each of a leader's partitions; return its offsets."""
        found: dict[int, int] = {}
        while left := [number for number in led if number not in found]:
            data = [ProduceRequest.PartitionProduceData(index=number, records=batch) for number in left]
            topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=data)
            request = ProduceRequest(transactional_id=self._name, acks=-1, timeout_ms=_PRODUCE_MS, topic_data=[topic])
            answer = await connection.call(ApiKey.PRODUCE, self._protocol.produce, request)
            told = answer.responses[0].partition_responses
            found |= {each.index: each.base_offset for each in told if not each.error_code}
            refused = [each.error_code for each in told if each.error_code]
            if refused:
                await self._wait_for_another(ApiKey.PRODUCE, refused[0])
        return found


class CommittedReader:
    """Reads one partition at read_committed from a task of its own: a request is always under way."""

    def __init__(self, connection: WireConnection, partition: int, position: int) -> None:
        self._connection = connection
        self._partition = partition
        self._position = position
        self._seen_at = 0.0
        self._news = asyncio.Event()
        self._failure: BenchmarkError | None = None
        self._task = asyncio.create_task(self._run())

    async def until(self, offset: int) -> float:
        """Return when (perf_counter) everything below an offset had come. One caller at a time.

        Raises:
            DisturbedError: The broker refuses to be read.
            BenchmarkError: It did not come in time.
        """
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while self._position < offset:
                    if self._failure is not None:
                        raise self._failure
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise BenchmarkError(f"offset {offset} was not read in time") from None
        return self._seen_at

    async def close(self) -> None:
        """End the connection."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._connection.close()

    async def _run(self) -> None:
        try:
            while True:
                await self._read()
        except BenchmarkError as error:
            self._failure = error
            self._news.set()

    async def _read(self) -> None:
        partition = FetchRequest.FetchPartition(
            partition=self._partition, fetch_offset=self._position, partition_max_bytes=_FETCH_BYTES
        )
        request = FetchRequest(
            max_wait_ms=_FETCH_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation_level=_READ_COMMITTED,
            topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        answer = await self._connection.call(ApiKey.FETCH, _FETCH, request)
        now = time.perf_counter()
        found = answer.responses[0].partitions[0]
        if answer.error_code or found.error_code:
            raise DisturbedError(f"FETCH: error {answer.error_code or found.error_code}")
        position = _end_of(found.records or b"", self._position)
        if position > self._position:
            self._position, self._seen_at = position, now
            self._news.set()


async def init_producer(
    connection: WireConnection, name: str, protocol: Protocol, timeout_ms: int = _TIMEOUT_MS
) -> Identity:
    """Become the only producer of a transactional id at its coordinator, which may still be loading.

    Raises:
        BenchmarkError: It is refused, or not served in time.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        answer = await connection.call(ApiKey.INIT_PRODUCER_ID, protocol.init, init_request(name, timeout_ms))
        if not answer.error_code:
            return Identity(answer.producer_id, answer.producer_epoch)
        code = ErrorCode(answer.error_code)
        if code not in _AGAIN and code is not ErrorCode.NOT_COORDINATOR:
            raise DisturbedError(f"INIT_PRODUCER_ID of {name}: error {code}")
        await asyncio.sleep(_AGAIN.get(code, _AWAY_SECONDS))
    raise BenchmarkError(f"nobody serves transactional id {name}")


def init_request(name: str, timeout_ms: int = _TIMEOUT_MS) -> InitProducerIdRequest:
    """Return the request of a new producer with a transactional id."""
    return InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=timeout_ms, producer_id=-1, producer_epoch=-1
    )


def add_partitions(name: str, identity: Identity, partitions: Sequence[int]) -> AddPartitionsToTxnRequest:
    """Return the request of a client that adds partitions of the topic to its transaction (version 3)."""
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=list(partitions))
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[topic],
    )


def added_codes(answer: Any) -> list[int]:
    """Return the codes of the answer to that."""
    results = answer.results_by_topic_v3_and_below
    return [each.partition_error_code for topic in results for each in topic.results_by_partition]


def _new_batch(count: int) -> bytearray:
    """Return a batch of so many random values, which no codec makes smaller."""
    records = [KeyValue(b"", os.urandom(VALUE_BYTES)) for _ in range(count)]
    producer = BatchProducer(attributes=TRANSACTIONAL_MASK)
    return encode_key_values(records, time.time_ns() // 1_000_000, producer)


def _end_of(records: Any, position: int) -> int:
    """Return the offset behind the last whole batch; `position` if there is none."""
    at = 0
    while len(records) - at >= HEADER_BYTES:
        header = read_header(records, at)
        at += header.size
        if at <= len(records):
            position = header.base_offset + header.last_offset_delta + 1
    return position
