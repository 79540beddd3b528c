"""Idempotent producers of a simulated run, on the wire: several batches in flight, sent again in order until answered."""

import asyncio
from collections import defaultdict, deque
from random import Random
from typing import NamedTuple

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import InitProducerIdRequest
from kafka_api.refused_batches import FOR_NOW
from tests.simulation.clients.kafka_producers import NOT_APPENDED, Producer, SentRecords
from tests.simulation.clients.kafka_wire import Address, KafkaWire, LostError, NotSentError
from tests.simulation.clients.recorder import Recorder

# How long a batch is tried again.
_DELIVERY_SECONDS = 12.0
_ANSWERED = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_LOST_TRACK = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class _Batch:
    """A batch until it is answered. `may_be_there`: it has been sent, and not been refused for certain each time."""

    def __init__(self, records: SentRecords, deadline: float) -> None:
        self.records = records
        self.deadline = deadline
        self.asked: list[Address] = []
        self.may_be_there = False
        self.is_done = False


class _Try(NamedTuple):
    """A batch that was sent; `answer` is None, or what it was refused for. `is_first`: nothing before it was open."""

    batch: _Batch
    answer: asyncio.Task[ErrorCode | None]
    is_first: bool

    @property
    def is_open(self) -> bool:
        """Whether there is no answer yet."""
        return not self.answer.done()

    @property
    def refusal(self) -> ErrorCode | None:
        """What an answer says of the producer: behind one that is not answered, to be out of order is ordinary."""
        error = self.answer.result()
        is_ordinary = error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self.is_first
        return ErrorCode.NETWORK_EXCEPTION if is_ordinary else error


class SimIdempotentProducer(Producer):
    """At acks=all, with one or up to five batches of a partition in flight (KIP-98, KIP-360)."""

    is_idempotent = True

    def __init__(self, wire: KafkaWire, recorder: Recorder, rng: Random, topic: str, partitions: int, **shared) -> None:
        super().__init__(wire, recorder, rng, topic, partitions, **shared)
        self._window = rng.choice([1, 5])
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[int, int] = defaultdict(int)
        self._waiting: dict[int, deque[_Batch]] = defaultdict(deque)
        # Set when a batch has come, or an answer.
        self._changed: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self._draining: dict[int, asyncio.Task[None]] = {}
        self._has_lost_track = False

    @property
    def has_ended(self) -> bool:
        """Whether it was told to stop, and all that was sent is answered or given up."""
        if not super().has_ended or not all(task.done() for task in self._draining.values()):
            return False
        for task in self._draining.values():
            # What it raised is a mistake of this file, and ends the run.
            task.result()
        return True

    async def _send(self) -> None:
        if self._has_lost_track and not any(self._waiting.values()):
            # Whether the brokers expect the next number is not known: another producer id begins anew.
            self._has_lost_track, self._producer_id = False, -1
        if self._has_lost_track or (self._producer_id < 0 and not await self._init()):
            return
        partition = self.rng.randrange(self._partitions)
        waiting = self._waiting[partition]
        if len(waiting) >= self._window:
            return
        numbers = {"producer_id": self._producer_id, "producer_epoch": self._epoch}
        records = SentRecords(self, partition, self._count(), **numbers, base_sequence=self._sequences[partition])
        self._sequences[partition] += records.count
        waiting.append(_Batch(records, asyncio.get_running_loop().time() + _DELIVERY_SECONDS))
        self._changed[partition].set()
        task = self._draining.get(partition)
        if task is not None and task.done():
            task.result()
        if task is None or task.done():
            self._draining[partition] = asyncio.get_running_loop().create_task(self._drain(partition))

    async def _init(self) -> bool:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            answer = await self.wire.call(self.wire.any_broker(), ApiKey.INIT_PRODUCER_ID, 1, request)
        except (NotSentError, LostError):
            return False
        if answer.error_code:
            return False
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        return True

    async def _drain(self, partition: int) -> None:
        """Send what waits, again and again, until nothing does."""
        waiting, rng = self._waiting[partition], Random(self._stream.getrandbits(64))
        while waiting:
            why = await self._round(partition, waiting)
            if waiting and (why in _LOST_TRACK or asyncio.get_running_loop().time() > waiting[0].deadline):
                self._has_lost_track = True
                for batch in waiting:
                    if not batch.is_done:
                        batch.records.end("info" if batch.may_be_there else "fail", None, str(why))
                waiting.clear()
            elif waiting and waiting[0].asked:
                await asyncio.sleep(rng.uniform(0.02, 0.2))

    async def _round(self, partition: int, waiting: deque[_Batch]) -> ErrorCode | None:
        """Send in order all that has no answer, and what comes meanwhile, until something is refused; await the answers.

        What comes meanwhile goes to whoever leads by then, while what was sent before may hang at the leader before.
        Returns what the first of all that was refused was refused for.
        """
        changed, tries, is_broken = self._changed[partition], list[_Try](), False
        while True:
            changed.clear()
            tries[:] = [each for each in tries if each.is_open or each.refusal is not None]
            while waiting and waiting[0].is_done:
                waiting.popleft()
            if not is_broken and all(each.is_open for each in tries):
                is_broken = not await self._send_rest(partition, waiting, tries)
            else:
                is_broken = True
            if not changed.is_set() and not any(each.is_open for each in tries):
                return tries[0].refusal if tries else None
            await changed.wait()

    async def _send_rest(self, partition: int, waiting: deque[_Batch], tries: list[_Try]) -> bool:
        """Send what of `waiting` is not in `tries` yet; return whether all of it could be sent."""
        tried = {each.batch for each in tries}
        for batch in [batch for batch in waiting if not batch.is_done and batch not in tried]:
            is_first = not any(each.is_open for each in tries)
            try:
                address, _ = await self.wire.leader(self.topic, partition)
                batch.asked.append(address)
                sent = await self.wire.begin(address, ApiKey.PRODUCE, self._version, self._request([batch.records]))
            except (NotSentError, LostError):
                self.wire.forget(self.topic, partition)
                if not tries:
                    await asyncio.sleep(0.1)
                return False
            # Still under way at the same broker, so by the same connection.
            before = next((each for each in reversed(tries) if each.is_open and each.batch.asked[-1] == address), None)
            settled = self._settle(partition, batch, address, sent, before.answer if before else None)
            answer = asyncio.get_running_loop().create_task(settled)
            answer.add_done_callback(lambda _: self._changed[partition].set())
            tries.append(_Try(batch, answer, is_first))
        return True

    async def _settle(
        self,
        partition: int,
        batch: _Batch,
        address: Address,
        sent: asyncio.Future,
        before: asyncio.Task[ErrorCode | None] | None,
    ) -> ErrorCode | None:
        try:
            answer = await self.wire.answer(address, sent)
        except LostError:
            batch.may_be_there = True
            self.wire.forget(self.topic, partition)
            return ErrorCode.NETWORK_EXCEPTION
        offset, error = self._told(answer, partition)
        if error in _ANSWERED:
            batch.is_done = True
            self.recorder.counts["retry answered"] += len(batch.asked) > 1
            self.recorder.counts["retry answered by another leader"] += len(set(batch.asked)) > 1
            batch.records.end("ok", offset, None)
            return None
        batch.may_be_there |= error not in NOT_APPENDED and error not in _LOST_TRACK
        if before is not None and (why := await before) in FOR_NOW:
            self.recorder.counts["refused behind a refused batch"] += 1
            if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                # RFC 0007: librdkafka would begin a new epoch, and send again what may be there.
                self.recorder.wrong.append(
                    f"{self.topic}-{partition}: {error!r} behind a batch that was refused with {why!r}"
                )
        return error
