"""DescribeProducers (61): the producers that a replica remembers, and what they have open."""

import asyncio

from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.producer_state import KnownProducer, ProducerState
from kafka_api.handlers.in_steps import in_steps
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeProducersRequest, DescribeProducersResponse
from kafka_api.request_context import RequestContext

_Partition = DescribeProducersResponse.PartitionResponse
_Producer = DescribeProducersResponse.ProducerState

_NO_TRANSACTION = -1
# Of one answer: some 10 MB in memory.
_PRODUCERS_MAX = 20_000


async def handle_describe_producers(
    context: RequestContext, _: int, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Describe those of each partition that has a replica here."""
    # Once each: a partition of few bytes in the request may be a hundred thousand in the answer.
    asked: dict[str, dict[int, None]] = {}
    for each in request.topics:
        asked.setdefault(each.name, {}).update(dict.fromkeys(each.partition_indexes))
    room = _PRODUCERS_MAX
    topics = []
    for name, numbers in asked.items():
        partitions = []
        for number in numbers:
            partitions.append(await _describe(context, name, number, room))
            if partitions[-1].active_producers:
                room -= len(partitions[-1].active_producers)
                await asyncio.sleep(0)
        topics.append(DescribeProducersResponse.TopicResponse(name=name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


async def _describe(context: RequestContext, name: str, number: int, room: int) -> _Partition:
    topic = context.node.controller.topics.get(name)
    if topic is None or not 0 <= number < len(topic.replicas):
        return _refused(number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    replica = context.node.partitions.get(topic.group(number))
    if replica is None or replica.failure is not None:
        return _refused(number, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    state = replica.log_state
    if isinstance(state, OffsetsLogState):
        # Who commits offsets in transactions: `current_txn_start_offset` tells what hangs here, too.
        state = state.producers
    if not isinstance(state, ProducerState):
        return _Partition(partition_index=number, active_producers=[])
    # The first partition is described whole.
    if state.producer_count > room and room < _PRODUCERS_MAX:
        why = f"more than {_PRODUCERS_MAX} producers: ask for fewer partitions at once"
        return _refused(number, ErrorCode.INVALID_REQUEST, why)
    # Some may be forgotten meanwhile.
    known = [state.known(producer_id) async for producer_id in in_steps(state.known_ids())]
    found = [_described(each) for each in known if each is not None]
    return _Partition(partition_index=number, active_producers=found)


def _refused(number: int, code: ErrorCode, message: str | None = None) -> _Partition:
    return _Partition(partition_index=number, error_code=code, error_message=message, active_producers=[])


def _described(producer: KnownProducer) -> _Producer:
    return _Producer(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=_NO_TRANSACTION if producer.first_offset is None else producer.first_offset,
    )
