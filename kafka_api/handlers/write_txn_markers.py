"""WriteTxnMarkers (27): an administrator ends a transaction that hangs, by `kafka-transactions.sh abort` (KIP-664).

The marker ends exactly the open transaction of that producer and epoch (RFC 0021, section 5). Coordinators use a
message of their own. Kafka without an authorizer lets everybody end transactions. The request's epoch of the
coordinator goes into the marker and is compared with nothing.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cluster.partition import Partition
from cluster.transactions.marker_writer import PARTITIONS_MAX, EndingTransaction, MarkerResult, WriteMarkersRequest
from kafka_api.handlers.in_steps import in_steps
from kafka_api.handlers.partition_lookup import find_leader
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafka_api.request_context import RequestContext
from model.control_batch import NO_PREPARE

# Of one request, however many partitions it names; below the request timeout of every client.
_TIMEOUT = 5.0

_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
_TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
_PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

_CODES: Mapping[MarkerResult, ErrorCode] = {
    MarkerResult.DONE: ErrorCode.NONE,
    MarkerResult.NOTHING_OPEN: ErrorCode.INVALID_TXN_STATE,
    MarkerResult.NOT_LEADER: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    MarkerResult.FAILED: ErrorCode.REQUEST_TIMED_OUT,
}


class _Place(NamedTuple):
    """Where a marker goes, and where in the answer its result stands."""

    result: _PartitionResult
    partition: Partition


async def handle_write_txn_markers(
    context: RequestContext, _: int, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write each marker where this broker leads the partition; what has no answer in time is timed out."""
    deadline = asyncio.get_running_loop().time() + _TIMEOUT
    markers = []
    for marker in request.markers:
        topics, places = [], []
        for topic in marker.topics:
            results = []
            async for number in in_steps(topic.partition_indexes):
                found = _find(context, marker, topic.name, number)
                if isinstance(found, ErrorCode):
                    results.append(_PartitionResult(partition_index=number, error_code=found))
                else:
                    results.append(_PartitionResult(partition_index=number))
                    places.append(_Place(results[-1], found))
            topics.append(_TopicResult(name=topic.name, partitions=results))
        markers.append(_MarkerResult(producer_id=marker.producer_id, topics=topics))
        for first in range(0, len(places), PARTITIONS_MAX):
            await _end(context, marker, places[first : first + PARTITIONS_MAX], deadline)
    return WriteTxnMarkersResponse(markers=markers)


def _find(context: RequestContext, marker: _Marker, topic_name: str, number: int) -> Partition | ErrorCode:
    topic = context.node.controller.topics.get(topic_name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = find_leader(context, topic, number)
    if isinstance(partition, ErrorCode):
        return partition
    if marker.producer_id < 0 or marker.producer_epoch < 0 or _is_of_another_epoch(partition, marker):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return partition


async def _end(context: RequestContext, marker: _Marker, places: Sequence[_Place], deadline: float) -> None:
    """Write a marker to several partitions at once, and put what became of it into their results."""
    ending = EndingTransaction(
        *(marker.producer_id, marker.producer_epoch, marker.transaction_result),
        *(max(0, marker.coordinator_epoch), *NO_PREPARE),
        [(each.partition.group, each.partition.leader_epoch) for each in places],
    )
    left = deadline - asyncio.get_running_loop().time()
    reply = await context.node.markers.writer.write(WriteMarkersRequest([ending], left))
    for each, result in zip(places, reply.results[0], strict=True):
        each.result.error_code = _CODES[MarkerResult(result)]


def _is_of_another_epoch(partition: Partition, marker: _Marker) -> bool:
    state = partition.transactional
    transaction = None if state is None else state.transactions.open_of(marker.producer_id)
    return transaction is not None and transaction.epoch != marker.producer_epoch
