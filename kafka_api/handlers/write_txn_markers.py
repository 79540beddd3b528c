"""WriteTxnMarkers (27): an administrator ends a transaction that hangs, by `kafka-transactions.sh abort` (KIP-664).

The marker ends exactly the open transaction of that producer and epoch (RFC 0021, section 5). Coordinators use a
message of their own. Kafka without an authorizer lets everybody end transactions.
"""

from collections.abc import Mapping
from typing import NamedTuple

from cluster.partition import Partition
from cluster.transactions.markers import EndingTransaction, MarkerResult, WriteMarkersRequest
from kafka_api.handlers.in_steps import in_steps
from kafka_api.handlers.partition_lookup import find_leader
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafka_api.request_context import RequestContext
from model.control_batch import NO_PREPARE

# Below the request timeout of every client.
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


class _Asked(NamedTuple):
    """A marker for one partition."""

    marker: _Marker
    topic: str
    number: int


async def handle_write_txn_markers(
    context: RequestContext, _: int, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Write each marker where this broker leads the partition."""
    markers = []
    for marker in request.markers:
        topics = []
        for topic in marker.topics:
            results = [
                _PartitionResult(
                    partition_index=number, error_code=await _end(context, _Asked(marker, topic.name, number))
                )
                async for number in in_steps(topic.partition_indexes)
            ]
            topics.append(_TopicResult(name=topic.name, partitions=results))
        markers.append(_MarkerResult(producer_id=marker.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=markers)


async def _end(context: RequestContext, asked: _Asked) -> ErrorCode:
    topic = context.node.controller.topics.get(asked.topic)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = find_leader(context, topic, asked.number)
    if isinstance(partition, ErrorCode):
        return partition
    marker = asked.marker
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if _is_of_another_epoch(partition, marker):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    ending = EndingTransaction(
        *(marker.producer_id, marker.producer_epoch, marker.transaction_result),
        *(max(0, marker.coordinator_epoch), *NO_PREPARE),
        [(partition.group, partition.leader_epoch)],
    )
    reply = await context.node.markers.writer.write(WriteMarkersRequest([ending], _TIMEOUT))
    return _CODES[MarkerResult(reply.results[0][0])]


def _is_of_another_epoch(partition: Partition, marker: _Marker) -> bool:
    state = partition.transactional
    transaction = None if state is None else state.transactions.open_of(marker.producer_id)
    return transaction is not None and transaction.epoch != marker.producer_epoch
