"""Admission of a Produce request's transactional batches: guards, one question, codes (RFC 0021, section 4).

guard     of each partition whose batch would open a transaction there
question  one for all of them, to the coordinator of the transactional id
offer     each batch with its guard; one whose guard has changed is asked for and offered once more
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cluster.partition import Partition
from cluster.producer_batch import BatchSequence, is_transactional, read_sequence
from cluster.transactions.admission import Admission
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ProduceRequest
from kafka_api.request_context import RequestContext
from kafka_api.transactions.admission_codes import admission_code
from model.ids import Term

_Data = ProduceRequest.PartitionProduceData

NO_ID = "a transactional id has one byte or more"

# From here on the broker adds partitions; before, clients do, and the coordinator only looks whether they have.
_FIRST_VERSION_THAT_ADDS = 12
_ACKS_ALL = -1


class Guard(NamedTuple):
    """What a batch was judged by before its coordinator was asked; it is offered in this term only."""

    term: Term
    fences: int


@dataclass(slots=True)
class _Opening:
    partition: Partition
    guard: Guard
    answer: Admission = Admission.AWAY


def judge_transactional(request: ProduceRequest) -> tuple[ErrorCode, str] | None:
    """Return why a request with a transactional id is refused as a whole; None: it is not."""
    producers = {batch[:2] for batch in _transactional_batches(request)}
    if producers and not request.transactional_id:
        return ErrorCode.INVALID_REQUEST, NO_ID
    if producers and request.acks != _ACKS_ALL:
        return ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: batches of transactions need -1"
    if len(producers) > 1:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of transactions of more than one producer in one request"
    return None


def _transactional_batches(request: ProduceRequest) -> Iterator[BatchSequence]:
    for topic in request.topic_data:
        for data in topic.partition_data:
            batch = None if data.records is None else read_sequence(data.records)
            if batch is not None and data.records is not None and is_transactional(data.records):
                yield batch


class RequestAdmission:
    """The admission of one request. Batches are known by their objects: a request may name a partition twice."""

    def __init__(self, context: RequestContext, transactional_id: str, version: int, deadline: float) -> None:
        self._context = context
        self._transactional_id = transactional_id
        self._version = version
        self._deadline = deadline
        self._openings: dict[int, _Opening] = {}

    async def ask(self, batches: Iterable[tuple[Partition, _Data]]) -> None:
        """Take a guard for each batch that would open a transaction now, and ask for all of them at once."""
        self._openings = {}
        asker: BatchSequence | None = None
        for partition, data in batches:
            state = partition.transactional
            batch = None if data.records is None else read_sequence(data.records)
            if state is None or batch is None or data.records is None or not state.opens_transaction(data.records):
                continue
            asker = batch
            # Before the question: a marker that comes while the answer is on its way must change it.
            guard = Guard(partition.leader_epoch, state.fences.guard(batch.producer_id))
            self._openings[id(data)] = _Opening(partition, guard)
        if asker is None:
            return
        names = [(each.partition.topic.name, each.partition.partition) for each in self._openings.values()]
        is_add = self._version >= _FIRST_VERSION_THAT_ADDS
        answers = await self._context.node.admissions.ask(
            self._transactional_id, asker.producer_id, asker.epoch, names, is_add, self._deadline
        )
        for opening, answer in zip(self._openings.values(), answers, strict=True):
            opening.answer = answer

    def refusal(self, data: _Data) -> ErrorCode | None:
        """Return what a batch is refused with; None: it may be offered."""
        opening = self._openings.get(id(data))
        if opening is None or opening.answer is Admission.YES:
            return None
        return admission_code(opening.answer, ApiKey.PRODUCE, self._version)

    def guard(self, data: _Data) -> Guard | None:
        """Return the guard with which a batch is offered; None: it needs none."""
        opening = self._openings.get(id(data))
        return None if opening is None else opening.guard
