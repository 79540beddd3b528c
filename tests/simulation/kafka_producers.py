"""Producers of a simulated run, on the wire: at every level, idempotent and not; one request at a time each.

What became of a record is told by the strictest reading (docs/history-format.md): only an error that is answered before
the record is appended says that it certainly is not in the log.
"""

import asyncio
from random import Random

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import InitProducerIdRequest, ProduceRequest
from tests.simulation.kafka_wire import KafkaWire, LostError, NotSentError
from tests.simulation.recorder import Recorder
from tests.simulation.replica_view import content_key
from tests.unit.model.record_batches import build_batch

_ACKS = {"all": -1, "1": 1, "0": 0}
_TIMEOUT_MS = 4_000
# How long an idempotent producer tries again.
_DELIVERY_SECONDS = 12.0
_NOT_APPENDED = frozenset(
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
_LOST_TRACK = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class SimProducer:
    """One process. `is_working` set to False ends it after the record at hand."""

    def __init__(
        self, wire: KafkaWire, recorder: Recorder, rng: Random, topic: str, partitions: int, sent: set[bytes]
    ) -> None:
        # The contents of all batches, for the invariants.
        self._sent = sent
        self._wire = wire
        self._recorder = recorder
        self._rng = rng
        self._topic = topic
        self._partitions = partitions
        self._process = recorder.process()
        self._acks = rng.choice(["all", "all", "1", "1", "0"])
        self._is_idempotent = self._acks == "all" and rng.random() < 0.6
        self._version = rng.randrange(3, 13)
        self._pause = rng.choice([0.05, 0.2, 1.0])
        self._value_bytes = rng.choice([0, 0, 50, 5_000])
        self._number = 0
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[int, int] = {}
        self.is_working = True

    async def run(self) -> None:
        """Send until told to stop."""
        while self.is_working:
            await asyncio.sleep(self._rng.expovariate(1 / self._pause))
            if self._is_idempotent and self._producer_id < 0 and not await self._init():
                continue
            await self._send_one()

    async def _init(self) -> bool:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            answer = await self._wire.call(self._wire.any_broker(), ApiKey.INIT_PRODUCER_ID, 1, request)
        except (NotSentError, LostError):
            return False
        if answer.error_code:
            return False
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences = {}
        return True

    async def _send_one(self) -> None:
        partition = self._rng.randrange(self._partitions)
        self._number += 1
        value = f"{self._process}.{self._number}"
        batch = build_batch(
            value.encode() + b" " * self._rng.randrange(self._value_bytes + 1),
            producer_id=self._producer_id,
            producer_epoch=self._epoch if self._is_idempotent else None,
            base_sequence=self._sequences.get(partition, 0) if self._is_idempotent else -1,
        )
        self._sent.add(content_key(batch))
        fields = {"tp": f"{self._topic}-{partition}", "acks": self._acks, "idem": self._is_idempotent, "val": value}
        line = self._recorder.begin("send", self._process, **fields, off=None, epoch=None, err=None)
        outcome, offset, error = await self._attempts(partition, batch)
        self._recorder.end(line, outcome, off=offset, err=error)
        if self._is_idempotent:
            self._sequences[partition] = self._sequences.get(partition, 0) + 1
            if outcome != "ok":
                # Whether the broker expects this sequence number or the next one is not known.
                self._producer_id = -1

    async def _attempts(self, partition: int, batch: bytes) -> tuple[str, int | None, str | None]:
        """Return outcome, offset and error; only who is idempotent tries again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _DELIVERY_SECONDS
        outcome, why = "fail", ""
        while True:
            try:
                offset, error = await self._attempt(partition, batch)
            except NotSentError as unsent:
                why = str(unsent)
                self._wire.forget(self._topic, partition)
            except LostError as lost:
                outcome, why = "info", str(lost)
                self._wire.forget(self._topic, partition)
            else:
                if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    return "ok", offset, None
                why = error.name
                self._recorder.counts[f"produce {why}"] += 1
                self._wire.forget(self._topic, partition)
                if error in _LOST_TRACK:
                    return outcome, None, why
                if error not in _NOT_APPENDED:
                    outcome = "info"
            if not self._is_idempotent or loop.time() > deadline:
                return outcome, None, why
            await asyncio.sleep(self._rng.uniform(0.02, 0.2))

    async def _attempt(self, partition: int, batch: bytes) -> tuple[int | None, ErrorCode]:
        address, _ = await self._wire.leader(self._topic, partition)
        data = ProduceRequest.TopicProduceData(
            name=self._topic,
            partition_data=[ProduceRequest.PartitionProduceData(index=partition, records=batch)],
        )
        request = ProduceRequest(
            transactional_id=None, acks=_ACKS[self._acks], timeout_ms=_TIMEOUT_MS, topic_data=[data]
        )
        if self._acks == "0":
            await self._wire.send_only(address, ApiKey.PRODUCE, self._version, request)
            return None, ErrorCode.NONE
        answer = await self._wire.call(address, ApiKey.PRODUCE, self._version, request)
        told = answer.responses[0].partition_responses[0]
        error = ErrorCode(told.error_code)
        known = error is ErrorCode.NONE and told.base_offset >= 0
        return (told.base_offset if known else None), error
