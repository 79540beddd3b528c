"""Produce (0): one batch per partition, at one level for the whole request.

Answers in two stages: the handler returns once every batch has its place in the order, and the connection may read
its next request; the response follows when every partition has reached the level (or failed).

A batch that opens a transaction is the exception (RFC 0021): the connection waits until it is in the log or refused.
What comes behind it would be out of order where it is refused.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cluster.partition import Partition
from cluster.producer_batch import read_sequence
from cluster.producer_errors import NotAdmittedError, OutOfOrderSequenceError
from cluster.topic_table import Topic
from kafka_api.error_mapping import error_code
from kafka_api.handlers.leader_hints import LeaderHints
from kafka_api.handlers.partition_lookup import find_changeable, find_topic
from kafka_api.handlers.produce_admission import Guard, RequestAdmission, judge_transactional
from kafka_api.handlers.produced_batch import check_produced, check_timestamps
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ProduceRequest, ProduceResponse
from kafka_api.refused_batch import RefusedBatchError
from kafka_api.refused_batches import PartitionName
from kafka_api.request_context import RequestContext
from kafka_api.transactions.certain_level import NO_TRANSACTIONS, NOT_KNOWN
from model.ids import ConsistencyLevel, Term
from model.record_batch import BatchHeader, stamp_append_time
from model.topic_config import LOG_APPEND_TIME
from raft.errors import RaftError
from raft.replicate_item import ReplicateResult, ReplicateStages

_Topic = ProduceResponse.TopicProduceResponse
_Partition = ProduceResponse.PartitionProduceResponse
_RecordError = ProduceResponse.BatchIndexAndErrorMessage
_Data = ProduceRequest.PartitionProduceData

_FIRST_VERSION_WITH_TOPIC_ID = 13
_NO_TIMESTAMP = -1


async def handle_produce(
    context: RequestContext, version: int, request: ProduceRequest
) -> asyncio.Future[ProduceResponse] | ProduceResponse | None:
    """Append; None where the client wants no answer (acks=0) and nothing went wrong."""
    levels = {int(level): level for level in ConsistencyLevel}
    level = levels.get(request.acks)
    if level is None:
        return _refuse_all(
            context, request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: must be -1, 0 or 1"
        )
    timeout = min(max(request.timeout_ms / 1000, 0.0), context.options.produce_timeout_max)
    deadline = asyncio.get_running_loop().time() + timeout
    if request.transactional_id is not None:
        return await _handle_transactional(context, version, request, level, deadline)
    answer = _PendingAnswer(context, request.acks != 0)
    clock = context.node.env.wall_clock
    for asked in request.topic_data:
        topic = find_topic(context, asked.name, asked.topic_id, by_id=version >= _FIRST_VERSION_WITH_TOPIC_ID)
        results = answer.add_topic(asked.name, asked.topic_id)
        for data in asked.partition_data:
            found = topic if isinstance(topic, ErrorCode) else find_changeable(context, topic, data.index)
            sender = _Sender(context, (asked.name, asked.topic_id, data.index), data)
            if isinstance(found, ErrorCode):
                answer.add_error(results, data.index, sender.code(found), None, topic)
                continue
            try:
                batch, header = await _checked(context, found, data, version, deadline)
                stages, append_time, records = _append(found, batch, header, level, deadline, clock.now_ms())
            except RefusedBatchError as error:
                answer.add_refused(results, data.index, error, sender)
                continue
            answer.add(results, data, found, stages, append_time, records, sender)
            # The order is fixed before the next batch, and before the connection's next request, is looked at.
            await stages.enqueued
    return answer.finish()


@dataclass(slots=True)
class _Batch:
    """One batch of a transactional request, whose partition is led here."""

    partition: Partition
    data: _Data
    results: list[_Partition]
    sender: "_Sender"


async def _handle_transactional(
    context: RequestContext, version: int, request: ProduceRequest, level: ConsistencyLevel, deadline: float
) -> asyncio.Future[ProduceResponse] | ProduceResponse | None:
    """Append the batches of a request with a transactional id; some of them may be in no transaction."""
    assert request.transactional_id is not None
    transactions_level = await context.transactions.certain_level()
    if transactions_level is None:
        return _refuse_all(context, request, ErrorCode.NOT_ENOUGH_REPLICAS, NOT_KNOWN)
    if not transactions_level:
        return _refuse_all(context, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS)
    refusal = judge_transactional(request)
    if refusal is not None:
        return _refuse_all(context, request, *refusal)
    answer = _PendingAnswer(context, request.acks != 0)
    batches: list[_Batch] = []
    for asked in request.topic_data:
        topic = find_topic(context, asked.name, asked.topic_id, by_id=version >= _FIRST_VERSION_WITH_TOPIC_ID)
        results = answer.add_topic(asked.name, asked.topic_id)
        for data in asked.partition_data:
            found = topic if isinstance(topic, ErrorCode) else find_changeable(context, topic, data.index)
            sender = _Sender(context, (asked.name, asked.topic_id, data.index), data)
            if isinstance(found, ErrorCode):
                answer.add_error(results, data.index, sender.code(found), None, topic)
            else:
                batches.append(_Batch(found, data, results, sender))
    admission = RequestAdmission(context, request.transactional_id, version, deadline)
    offer = _TransactionalOffer(context, version, level, deadline, admission, answer)
    # A guard that has changed since it was taken is taken once more, before the producer is told to come again.
    again = await offer.run(batches, is_last=False)
    if again:
        await offer.run(again, is_last=True)
    return answer.finish()


@dataclass(slots=True)
class _TransactionalOffer:
    """Asks for the batches of a request, and offers them."""

    context: RequestContext
    version: int
    level: ConsistencyLevel
    deadline: float
    admission: RequestAdmission
    answer: "_PendingAnswer"

    async def run(self, batches: Sequence[_Batch], *, is_last: bool) -> list[_Batch]:
        """Ask, offer, and wait for those that open transactions; return those whose guard has changed."""
        await self.admission.ask((each.partition, each.data) for each in batches)
        guarded: list[tuple[_Batch, tuple[ReplicateStages, int, int]]] = []
        for batch in batches:
            refusal = self.admission.refusal(batch.data)
            if refusal is not None:
                code = batch.sender.code(refusal)
                self.answer.add_error(batch.results, batch.data.index, code, None, batch.partition.topic)
                continue
            guard = self.admission.guard(batch.data)
            try:
                partition = batch.partition
                checked = await _checked(
                    *(self.context, partition, batch.data, self.version, self.deadline), allows_transactions=True
                )
                now_ms = self.context.node.env.wall_clock.now_ms()
                offered = _append(partition, *checked, self.level, self.deadline, now_ms, guard=guard)
            except RefusedBatchError as error:
                self.answer.add_refused(batch.results, batch.data.index, error, batch.sender)
                continue
            if guard is None:
                self.answer.add(batch.results, batch.data, batch.partition, *offered, batch.sender)
            else:
                guarded.append((batch, offered))
            await offered[0].enqueued
        again = []
        for batch, offered in guarded:
            with contextlib.suppress(RaftError):
                await offered[0].replicated
            if not is_last and isinstance(offered[0].replicated.exception(), NotAdmittedError):
                again.append(batch)
            else:
                self.answer.add(batch.results, batch.data, batch.partition, *offered, batch.sender)
        return again


async def _checked(
    context: RequestContext,
    partition: Partition,
    data: _Data,
    version: int,
    deadline: float,
    *,
    allows_transactions: bool = False,
) -> tuple[bytearray, BatchHeader]:
    """Return a batch that may be appended, and its header."""
    # Copied once, out of the receive buffer: the engine stamps and keeps it.
    batch = bytearray(data.records or b"")
    config = partition.config
    header = check_produced(batch, version, config.max_message_bytes, allows_transactions=allows_transactions)
    if config.is_compacted:
        await context.key_checks.check(batch, header, deadline)
    return batch, header


def _append(
    partition: Partition,
    batch: bytearray,
    header: BatchHeader,
    level: ConsistencyLevel,
    deadline: float,
    now_ms: int,
    *,
    guard: Guard | None = None,
) -> tuple[ReplicateStages, int, int]:
    """Offer one batch to the engine; then the time that the broker has given it or -1, and how many records it has."""
    config = partition.config
    if config.message_timestamp_type == LOG_APPEND_TIME:
        append_time = partition.append_clock.stamp(partition.leader_epoch, now_ms)
        stamp_append_time(batch, append_time)
    else:
        append_time = _NO_TIMESTAMP
        check_timestamps(header, config, now_ms)
        partition.append_clock.observe(partition.leader_epoch, header.max_timestamp)
    if header.is_transactional:
        term, fences = (None, None) if guard is None else guard
        stages = partition.produce(*(batch, header.record_count, level, deadline, term), guard=fences, is_durable=True)
    else:
        stages = partition.produce(batch, header.record_count, level, deadline)
    return stages, append_time, header.record_count


def _refuse_all(context: RequestContext, request: ProduceRequest, code: ErrorCode, message: str) -> ProduceResponse:
    answer = _PendingAnswer(context, is_wanted=True)
    for asked in request.topic_data:
        results = answer.add_topic(asked.name, asked.topic_id)
        for data in asked.partition_data:
            answer.add_error(results, data.index, code, message)
    return answer.response


class _Sender:
    """Whose a batch is, for what this connection remembers of idempotent producers."""

    def __init__(self, context: RequestContext, partition: PartitionName, data: _Data) -> None:
        self._refused = context.refused_batches
        self._partition = partition
        self._batch = None if data.records is None else read_sequence(data.records)

    def code(self, code: ErrorCode) -> ErrorCode:
        """Return what the batch is answered with, instead of `code`."""
        return code if self._batch is None else self._refused.answered(self._partition, self._batch, code)

    def code_of(self, error: BaseException, epoch: Term) -> ErrorCode:
        """Return what the batch is answered with, which the leader of `epoch` has refused with `error`."""
        code = error_code(error)
        if self._batch is None or not isinstance(error, OutOfOrderSequenceError):
            return self.code(code)
        is_new_here = error.placed_term != epoch
        return self._refused.answered(self._partition, self._batch, code, is_new_here=is_new_here)


class _PendingAnswer:
    """The response under construction: complete once the last partition has ended."""

    def __init__(self, context: RequestContext, is_wanted: bool) -> None:
        self.response = ProduceResponse(responses=[])
        self._hints = LeaderHints(context)
        self._traffic = context.traffic
        self._is_wanted = is_wanted
        self._open = 1
        self._has_error = False
        self._done: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()

    def add_topic(self, name: str, topic_id: str) -> list[_Partition]:
        results: list[_Partition] = []
        self.response.responses.append(_Topic(name=name, topic_id=topic_id, partition_responses=results))
        return results

    def add_error(
        self,
        results: list[_Partition],
        index: int,
        code: ErrorCode,
        message: str | None,
        topic: Topic | ErrorCode = ErrorCode.NONE,
    ) -> None:
        self._has_error = True
        results.append(_Partition(index=index, error_code=code, base_offset=-1, error_message=message))
        self._name_leader(results[-1], topic)

    def add_refused(self, results: list[_Partition], index: int, error: RefusedBatchError, sender: "_Sender") -> None:
        # Where it may come again, what was sent behind it has no gap before it.
        self.add_error(results, index, sender.code(error.code), str(error))
        if error.records:
            results[-1].record_errors = [_RecordError(batch_index=each) for each in error.records]

    def _name_leader(self, result: _Partition, topic: Topic | ErrorCode) -> None:
        leader = self._hints.leader_for(result.error_code, topic, result.index)
        if leader is not None:
            result.current_leader = ProduceResponse.LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=leader.term)
            self.response.node_endpoints = [
                ProduceResponse.NodeEndpoint(node_id=broker.node_id, host=broker.kafka_host, port=broker.kafka_port)
                for broker in self._hints.brokers()
            ]

    def add(
        self,
        results: list[_Partition],
        data: _Data,
        partition: Partition,
        stages: ReplicateStages,
        append_time: int,
        records: int,
        sender: "_Sender",
    ) -> None:
        result = _Partition(index=data.index, base_offset=-1)
        results.append(result)
        size = len(data.records or b"")
        if not self._is_wanted:
            # Nobody learns what becomes of it: only what is refused at once ends the connection.
            self._traffic.count_in(partition.topic.name, size, records)
            return
        self._open += 1
        stages.replicated.add_done_callback(self._taker(result, partition, append_time, size, records, sender))

    def finish(self) -> asyncio.Future[ProduceResponse] | ProduceResponse | None:
        """All partitions are under way."""
        if not self._is_wanted:
            # A client that wants no answers learns of errors by the end of its connection, as in Kafka.
            return self.response if self._has_error else None
        self._close_one()
        return self.response if self._done.done() else self._done

    def _taker(
        self,
        result: _Partition,
        partition: Partition,
        append_time: int,
        size: int,
        records: int,
        sender: "_Sender",
    ) -> Callable[[asyncio.Future[ReplicateResult]], None]:
        def on_placed(future: asyncio.Future[ReplicateResult]) -> None:
            error = future.exception()
            if error is None:
                placed = future.result()
                result.base_offset = placed.base_offset
                result.log_append_time_ms = append_time
                if append_time != _NO_TIMESTAMP and placed.original_timestamp is not None:
                    result.log_append_time_ms = placed.original_timestamp
                result.log_start_offset = partition.start_offset
                self._traffic.count_in(partition.topic.name, size, records)
                sender.code(ErrorCode.NONE)
            else:
                result.error_code = sender.code_of(error, partition.leader_epoch)
                result.error_message = str(error) if isinstance(error, RaftError) else None
                self._name_leader(result, partition.topic)
            self._close_one()

        return on_placed

    def _close_one(self) -> None:
        # Each partition ends once: a response that is complete too early would answer a batch that is not written yet.
        assert self._open > 0
        self._open -= 1
        if self._open == 0:
            self._done.set_result(self.response)
