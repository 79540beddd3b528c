"""Producers with transactions in a simulated run, by both protocols: before KIP-890 and since (RFC 0021).

A transaction appends batches to several partitions and ends; some are aborted, and some are left open, so that the next
identity of their transactional id, or the time-out, ends them. Some producers pause in a transaction until it has timed
out, and go on as if nothing had happened: a process that was stopped knows of no time-out. What the history says of an end follows the strictest
reading: an error that answers a second attempt says nothing of the first one.
"""

import asyncio
from random import Random
from typing import Any, NamedTuple

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    Message,
)
from model.record_batch import TRANSACTIONAL_MASK
from tests.simulation.clients.kafka_producers import NOT_APPENDED, Producer, SentRecords
from tests.simulation.clients.kafka_wire import Address, KafkaWire, LostError, NotSentError
from tests.simulation.clients.recorder import Recorder

_TRANSACTION_KEY = 1
_FIND_VERSION, _INIT_VERSION, _ADD_VERSION = 3, 4, 3
RETRY_SECONDS = 0.1
# How long a producer tries one step.
STEP_SECONDS = 6.0
# How often a producer pauses before a further batch, and for how many time-outs.
_PAUSES, _PAUSE_TIMEOUTS = 0.05, 1.3
AWAY = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_NOT_LED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        *AWAY,
    }
)
_IS_THERE = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


class TransactionRules(NamedTuple):
    """What transactions of a run have in common.

    Attributes:
        level: Of `transaction.version`: 2 has the protocol of KIP-890, too.
        timeout_ms: After which the coordinator aborts.
    """

    level: int
    timeout_ms: int


class LostIdentityError(Exception):
    """The producer has to begin anew: another one has its transactional id, or nobody knows what became of its end."""


class SimTransactor(Producer):
    """One producer with a transactional id; another one with the same id fences it.

    `is_raising`: it speaks the protocol of KIP-890; None: chance decides.
    """

    is_idempotent = True

    def __init__(
        self,
        wire: KafkaWire,
        recorder: Recorder,
        rng: Random,
        topic: str,
        partitions: int,
        *,
        transactional_id: str,
        rules: TransactionRules,
        is_raising: bool | None = None,
        **shared,
    ) -> None:
        super().__init__(wire, recorder, rng, topic, partitions, **shared)
        self.identity = transactional_id
        self._rules = rules
        # Old clients go on as they did where brokers have the newer protocol.
        drawn = rules.level == 2 and rng.random() < 0.6
        self.is_raising = drawn if is_raising is None else is_raising
        self._version = 12 if self.is_raising else 11
        self._end_version = 5 if self.is_raising else 3
        self._txn_process = recorder.process()
        self._coordinator: Address | None = None
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[int, int] = {}

    async def _send(self) -> None:
        """Do one transaction."""
        try:
            if self.producer_id < 0:
                await self._init()
            await self._transaction()
        except LostIdentityError:
            self.producer_id = -1

    # -- the steps ----------------------------------------------------------------------------------------------

    async def _transaction(self) -> None:
        name = self.begin_line()
        added: set[int] = set()
        is_whole = True
        for number in range(self.rng.choice([1, 2, 2, 3])):
            if number and self.rng.random() < _PAUSES:
                self.recorder.counts["paused in a transaction"] += 1
                await asyncio.sleep(_PAUSE_TIMEOUTS * self._rules.timeout_ms / 1000)
            partition = self.rng.randrange(self._partitions)
            if not self.is_raising and partition not in added:
                await self.add(partition)
                added.add(partition)
            is_whole = await self.append(name, partition, self._count())
            if not is_whole:
                break
        if self.rng.random() < 0.06:
            self.recorder.counts["transaction left open"] += 1
            raise LostIdentityError
        await self.end(name, is_commit=is_whole and self.rng.random() < 0.8)
        if not is_whole:
            raise LostIdentityError

    async def add(self, partition: int) -> None:
        """Add a partition to the transaction.

        Raises:
            LostIdentityError: It cannot be added.
        """
        code = await self._coordinated(ApiKey.ADD_PARTITIONS_TO_TXN, _ADD_VERSION, self._adding(partition))
        self._check(code)

    async def append(self, name: str, partition: int, count: int, fields: dict[str, Any] | None = None) -> bool:
        """Append one batch; return whether the transaction may be committed. `fields`: more of each record's line.

        Raises:
            LostIdentityError: This producer is fenced.
        """
        first = self._sequences.get(partition, 0)
        # Values of a transaction's batches differ.
        self.number += 1
        records = SentRecords(
            self,
            partition,
            count,
            fields={"txn": name, **(fields or {})},
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=first,
            attributes=TRANSACTIONAL_MASK,
        )
        code, offset, may_be_there = await self._produce(partition, records)
        if code in _IS_THERE:
            records.end("ok", offset, None)
            self._sequences[partition] = first + records.count
            return True
        records.end("info" if may_be_there or code not in NOT_APPENDED else "fail", None, str(code))
        if code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            self._check(code)
        # Whether the next sequence follows is not known: the transaction is aborted, and the producer begins anew.
        return False

    async def _produce(self, partition: int, records: SentRecords) -> tuple[ErrorCode, int | None, bool]:
        """Send a batch again and again; return what was answered last, and whether it may be there all the same."""
        loop = asyncio.get_running_loop()
        deadline, may_be_there = loop.time() + STEP_SECONDS, False
        request = self._request([records])
        request.transactional_id = self.identity
        while True:
            code, offset = ErrorCode.NETWORK_EXCEPTION, None
            try:
                address, _ = await self.wire.leader(self.topic, partition)
                answer = await self.wire.call(address, ApiKey.PRODUCE, self._version, request)
                offset, code = self._told(answer, partition)
                may_be_there |= code not in NOT_APPENDED and code not in _IS_THERE and code not in AWAY
            except NotSentError:
                self.wire.forget(self.topic, partition)
            except LostError:
                may_be_there = True
                self.wire.forget(self.topic, partition)
            if code in _IS_THERE or code not in _NOT_LED or loop.time() > deadline:
                return code, offset, may_be_there
            await asyncio.sleep(self.rng.uniform(RETRY_SECONDS, 3 * RETRY_SECONDS))

    async def end(self, name: str, *, is_commit: bool, **fields: Any) -> None:
        """End a transaction. `fields`: more of its line.

        Raises:
            LostIdentityError: This producer is fenced, or nobody knows how it has ended.
        """
        request = EndTxnRequest(
            transactional_id=self.identity,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        said = {"id": self.identity, "epoch": self.epoch, "version": self._end_version, **fields}
        line = self.recorder.begin(
            "txn", self._txn_process, txn=name, do="commit" if is_commit else "abort", attempts=1, **said
        )
        attempts: list[int] = []
        answer = await self.asked(ApiKey.END_TXN, self._end_version, request, attempts)
        code = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
        self.recorder.counts[f"end {code.name}"] += 1
        if not attempts:
            # It was never sent.
            self.recorder.end(line, "fail")
            raise LostIdentityError
        if code is ErrorCode.NONE:
            self.recorder.end(line, "ok", attempts=len(attempts))
            if self.is_raising:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                self._sequences.clear()
            return
        # Only an answer to the only attempt says that nothing came of it.
        is_certain = len(attempts) == 1 and answer is not None and code not in AWAY
        self.recorder.end(line, "fail" if is_certain else "info", attempts=len(attempts))
        raise LostIdentityError

    async def _init(self) -> None:
        """Become the only producer of the id.

        Raises:
            LostIdentityError: Not now.
        """
        request = InitProducerIdRequest(
            transactional_id=self.identity,
            transaction_timeout_ms=self._rules.timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = await self.asked(ApiKey.INIT_PRODUCER_ID, _INIT_VERSION, request, [])
        if answer is None or answer.error_code:
            raise LostIdentityError
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    # -- the coordinator ----------------------------------------------------------------------------------------

    async def _coordinated(self, key: ApiKey, version: int, request: Message) -> ErrorCode:
        answer = await self.asked(key, version, request, [])
        if answer is None:
            return ErrorCode.NETWORK_EXCEPTION
        return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    async def asked(self, key: ApiKey, version: int, request: Message, attempts: list[int]) -> Message | None:
        """Ask the coordinator until it says more than "not now"; None: nobody has answered in time.

        `attempts` gets an element with each request that was sent.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + STEP_SECONDS
        answer: Message | None = None
        while True:
            try:
                address = self._coordinator or await self._find()
                attempts.append(version)
                answer = await self.wire.call(address, key, version, request)
                if _code_of(answer) not in AWAY:
                    return answer
            except NotSentError:
                if attempts and self._coordinator is not None:
                    attempts.pop()
            except LostError:
                answer = None
            self._coordinator = None
            if loop.time() > deadline:
                return answer
            await asyncio.sleep(self.rng.uniform(RETRY_SECONDS, 3 * RETRY_SECONDS))

    async def _find(self) -> Address:
        """Return where the coordinator is.

        Raises:
            NotSentError, LostError: Nobody says.
        """
        request = FindCoordinatorRequest(key=self.identity, key_type=_TRANSACTION_KEY)
        answer = await self.wire.call(self.wire.any_broker(), ApiKey.FIND_COORDINATOR, _FIND_VERSION, request)
        if answer.error_code:
            raise NotSentError(ErrorCode(answer.error_code).name)
        self._coordinator = answer.host, answer.port
        return self._coordinator

    def _adding(self, partition: int) -> AddPartitionsToTxnRequest:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.identity,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )

    def _check(self, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            self.recorder.counts[f"transaction {code.name}"] += 1
            raise LostIdentityError

    def begin_line(self) -> str:
        """Write down that a transaction begins; return its name."""
        name = f"{self.identity}.{self._txn_process}.{self.number}"
        line = self.recorder.begin("txn", self._txn_process, txn=name, do="begin", id=self.identity, epoch=self.epoch)
        self.recorder.end(line, "ok")
        return name


def _code_of(answer: Message) -> ErrorCode:
    """Return the error of an answer of the coordinator; each of these requests is about one partition at most."""
    results = getattr(answer, "results_by_topic_v3_and_below", None)
    if results:
        return ErrorCode(results[0].results_by_partition[0].partition_error_code)
    return ErrorCode(answer.error_code)
