"""Producers of a simulated run, on the wire: at every level; each waits for the answer before it goes on.

The outcome of a record follows the strictest reading (docs/history-format.md): only an error that is answered before
the record is appended says that it certainly is not in the log.
"""

import asyncio
from random import Random
from typing import Any

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import Message, ProduceRequest
from tests.simulation.clients.kafka_wire import Address, KafkaWire, LostError, NotSentError
from tests.simulation.clients.recorder import Recorder
from tests.simulation.world.replica_view import content_key
from tests.unit.model.record_batches import build_batch

_EPOCH_MS = 1_000_000
_ACKS = {"all": -1, "1": 1, "0": 0}
NOT_APPENDED = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_RECORD,
    }
)


class SentRecords:
    """The records of one batch: each is an operation of a process of its own, for they are under way together."""

    def __init__(
        self,
        producer: "Producer",
        partition: int,
        count: int,
        *,
        fields: dict[str, Any] | None = None,
        **numbers: int,
    ) -> None:
        self.partition = partition
        self.count = count
        self._producer = producer
        rng = producer.rng
        self._processes = [producer.take_process() for _ in range(count)]
        values = [f"{process}.{producer.number}" for process in self._processes]
        timestamps = [producer.timestamp() for _ in values]
        producer.recorder.timestamps.update(zip(values, timestamps, strict=True))
        self.batch = build_batch(
            *(value.encode() + b" " * rng.randrange(producer.value_bytes + 1) for value in values),
            timestamps=timestamps,
            keys=[value.encode() for value in values] if producer.recorder.has_keys else None,
            **numbers,
        )
        producer.sent.add(content_key(self.batch))
        tp = f"{producer.topic}-{partition}"
        fields = {"tp": tp, "acks": producer.acks, "idem": producer.is_idempotent, **(fields or {})}
        self._lines: list[dict[str, Any]] = [
            producer.recorder.begin("send", process, **fields, val=value, off=None, epoch=None, err=None)
            for process, value in zip(self._processes, values, strict=True)
        ]

    def end(self, outcome: str, offset: int | None, error: str | None) -> None:
        """Write down what became of the batch; `offset` is its first record's."""
        for number, line in enumerate(self._lines):
            off = None if offset is None else offset + number
            self._producer.recorder.end(line, outcome, off=off, err=error)
        self._producer.give_back(self._processes)


class Producer:
    """What producers share. `is_working` set to False ends one; `wire` may be another's too."""

    is_idempotent = False

    def __init__(
        self,
        wire: KafkaWire,
        recorder: Recorder,
        rng: Random,
        topic: str,
        partitions: int,
        *,
        sent: set[bytes],
        pace: float,
    ) -> None:
        self.wire = wire
        self.recorder = recorder
        self.topic = topic
        # The contents of all batches, for the invariants.
        self.sent = sent
        # Each operation has chances of its own: one that is left out moves no other.
        self._stream = self.rng = rng
        self.acks = "all"
        self.value_bytes = rng.choice([0, 0, 50, 5_000])
        self.number = 0
        self._partitions = partitions
        self._process = recorder.process()
        self._processes = [self._process]
        self._version = rng.randrange(3, 13)
        self._pause = rng.choice([0.9, 1.8, 2.6]) / pace
        self._timeout_ms = rng.choice([300, 4_000])
        self._clock_ms = rng.randrange(-2_000, 2_000)
        self.is_working = True
        self._is_sending = False

    @property
    def has_ended(self) -> bool:
        """Whether it was told to stop, and sends nothing any more."""
        return not self.is_working and not self._is_sending

    def take_process(self) -> int:
        """Return a process that has no operation under way."""
        return self._processes.pop() if self._processes else self.recorder.process()

    def timestamp(self) -> int:
        """Draw a record's timestamp: clients' clocks differ by seconds, and records of a batch are not in order."""
        return _EPOCH_MS + self.recorder.now_ns // 1_000_000 + self._clock_ms + self.rng.randrange(300)

    def give_back(self, processes: list[int]) -> None:
        """Their operations have ended."""
        self._processes += reversed(processes)

    async def run(self) -> None:
        """Send until told to stop."""
        while self.is_working:
            await asyncio.sleep(self._stream.expovariate(1 / self._pause))
            self.rng = Random(self._stream.getrandbits(64))
            self.number += 1
            if self.is_working and self.recorder.wants(self._process):
                self._is_sending = True
                await self._send()
                self._is_sending = False

    async def _send(self) -> None:
        raise NotImplementedError

    def _count(self) -> int:
        """Draw how many records a batch has: several, as clients that linger send them; bursts are of single ones."""
        return self.rng.choice([1, 3, 4, 6])

    def _request(self, batches: list[SentRecords]) -> ProduceRequest:
        data = ProduceRequest.TopicProduceData(
            name=self.topic,
            partition_data=[
                ProduceRequest.PartitionProduceData(index=each.partition, records=each.batch) for each in batches
            ],
        )
        return ProduceRequest(
            transactional_id=None, acks=_ACKS[self.acks], timeout_ms=self._timeout_ms, topic_data=[data]
        )

    def _told(self, answer: Message, partition: int) -> tuple[int | None, ErrorCode]:
        """Return offset and error of a partition in an answer; an error makes the producer look for the leader."""
        [told] = [each for each in answer.responses[0].partition_responses if each.index == partition]
        error = ErrorCode(told.error_code)
        if error is ErrorCode.NONE:
            return (told.base_offset if told.base_offset >= 0 else None), error
        self.recorder.counts[f"produce {error.name}"] += 1
        self.wire.forget(self.topic, partition)
        return None, error

    def _end(self, records: SentRecords, answer: Message) -> None:
        """Write down what the answer to a batch says that is not tried again."""
        offset, error = self._told(answer, records.partition)
        if error is ErrorCode.NONE:
            records.end("ok", offset, None)
        else:
            records.end("fail" if error in NOT_APPENDED else "info", None, error.name)


class SimProducer(Producer):
    """One that tries once: at any level, sometimes for several partitions in one request."""

    def __init__(self, wire: KafkaWire, recorder: Recorder, rng: Random, topic: str, partitions: int, **shared) -> None:
        super().__init__(wire, recorder, rng, topic, partitions, **shared)
        self.acks = rng.choice(["all", "1", "1", "0"])

    async def _send(self) -> None:
        count = 2 if self.rng.random() < 0.2 else 1
        some = self.rng.sample(range(self._partitions), min(count, self._partitions))
        batches = [SentRecords(self, partition, self._count()) for partition in some]
        address = None
        try:
            addresses = {await self._leader(each.partition) for each in batches}
            # Those whose leader is another broker's go with the first all the same: it refuses them.
            address = min(addresses)
            request = self._request(batches)
            if self.acks == "0":
                await self.wire.send_only(address, ApiKey.PRODUCE, self._version, request)
                answer = None
            else:
                answer = await self.wire.call(address, ApiKey.PRODUCE, self._version, request)
        except (NotSentError, LostError) as error:
            for each in batches:
                self.wire.forget(self.topic, each.partition)
                each.end("info" if isinstance(error, LostError) and address is not None else "fail", None, str(error))
            return
        for each in batches:
            if answer is None:
                each.end("ok", None, None)
            else:
                self._end(each, answer)

    async def _leader(self, partition: int) -> Address:
        address, _ = await self.wire.leader(self.topic, partition)
        return address
