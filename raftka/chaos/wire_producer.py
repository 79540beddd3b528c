"""A producer on the wire client: one process, one record at a time, each acknowledged by itself.

The outcome of a record follows the strictest reading (docs/history-format.md): only an error that is answered before
the record is appended says that it certainly is not in the log.
"""

import asyncio
import random
from typing import NamedTuple

from raftka.chaos.history import History
from raftka.chaos.keyed_records import RecordMaker, plain_record
from raftka.chaos.load import DELIVERY_SECONDS, PRODUCE_TIMEOUT_MS, WIRE_ACKS, Acks, Topics, tp_of, wall_ms
from raftka.chaos.pacing import Pacer
from raftka.kafka.wire.client import LostError, NotSentError, WireClient
from raftka.kafka.wire.error_codes import DUPLICATE_SEQUENCE_NUMBER, LOST_TRACK, NONE, NOT_APPENDED
from raftka.kafka.wire.record_batches import NOBODY, Producer, build_batch
from raftka.kafka.wire.requests import Acknowledgement, init_producer_id, produce

_IDLE_SECONDS = 0.1


class _Outcome(NamedTuple):
    type: str
    offset: int | None = None
    node: int | None = None
    error: str | None = None


class WireProducer:
    """`is_working` set to False ends it after the record at hand."""

    def __init__(
        self,
        client: WireClient,
        history: History,
        rng: random.Random,
        pacer: Pacer,
        topics: Topics,
        acks: Acks,
        *,
        is_idempotent: bool,
        record_of: RecordMaker = plain_record,
    ) -> None:
        self._client = client
        self._history = history
        self._rng = rng
        self._pacer = pacer
        self._topics = topics
        self._acks: Acks = acks
        self._is_idempotent = is_idempotent
        self._record_of = record_of
        self._process = history.process()
        self._number = 0
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[tuple[str, int], int] = {}
        self.is_working = True

    async def run(self) -> None:
        """Send until told to stop."""
        while self.is_working:
            wait = self._pacer.take()
            if wait:
                # Not all at the same instant.
                await asyncio.sleep(wait + self._rng.random() * _IDLE_SECONDS)
            elif self._is_idempotent and self._identity is None and not await self._init():
                await asyncio.sleep(_IDLE_SECONDS)
            else:
                await self._send_one(*self._rng.choice(self._topics.all))

    async def _init(self) -> bool:
        try:
            told = await self._client.call(self._client.any_broker(), init_producer_id())
        except (NotSentError, LostError):
            return False
        if told.error == NONE:
            self._identity = told.id, told.epoch
            self._sequences = {}
        return told.error == NONE

    async def _send_one(self, topic: str, partition: int) -> None:
        self._number += 1
        record = self._record_of(self._process, self._number)
        sequence = self._sequences.get((topic, partition), 0)
        producer = NOBODY if self._identity is None else Producer(*self._identity, sequence)
        batch = build_batch(record.value, wall_ms(), producer, key=record.key, headers=record.headers)
        fields = {"tp": tp_of(topic, partition), "acks": self._acks, "idem": self._is_idempotent, **record.fields}
        line = self._history.begin("send", self._process, **fields, off=None, epoch=None, err=None)
        outcome = await self._attempts(topic, partition, batch)
        self._history.end(line, outcome.type, off=outcome.offset, err=outcome.error, node=outcome.node)
        self._sequences[topic, partition] = sequence + 1
        if outcome.type != "ok":
            # Whether the broker expects this sequence number or the next one is not known.
            self._identity = None

    async def _attempts(self, topic: str, partition: int, batch: bytes) -> _Outcome:
        """Try until it is acknowledged; only who is idempotent tries again."""
        deadline = asyncio.get_running_loop().time() + DELIVERY_SECONDS
        outcome = "fail"
        while True:
            node = None
            try:
                node, answer = await self._attempt(topic, partition, batch)
            except NotSentError as unsent:
                why = str(unsent)
            except LostError as lost:
                outcome, why = "info", str(lost)
            else:
                if answer.error in (NONE, DUPLICATE_SEQUENCE_NUMBER):
                    is_known = answer.error == NONE and answer.offset >= 0
                    return _Outcome("ok", answer.offset if is_known else None, node)
                why = f"error {answer.error}"
                if answer.error in LOST_TRACK:
                    return _Outcome(outcome, node=node, error=why)
                if answer.error not in NOT_APPENDED:
                    outcome = "info"
            self._client.forget(topic, partition)
            if not self._is_idempotent or asyncio.get_running_loop().time() > deadline:
                return _Outcome(outcome, node=node, error=why)
            await asyncio.sleep(self._rng.uniform(0.02, 0.2))

    async def _attempt(self, topic: str, partition: int, batch: bytes) -> tuple[int, Acknowledgement]:
        node, address = await self._client.leader(topic, partition)
        request = produce(topic, partition, batch, WIRE_ACKS[self._acks], PRODUCE_TIMEOUT_MS)
        if self._acks == "0":
            await self._client.send_only(address, request)
            return node, Acknowledgement(NONE, -1)
        return node, await self._client.call(address, request)
