"""ListOffsets (2): earliest, latest, and the first offset at or after a timestamp."""

import asyncio

from cluster.partition import Partition
from cluster.topic_table import Topic
from kafka_api.error_mapping import error_code
from kafka_api.handlers.partition_lookup import find_leader, find_topic
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from kafka_api.request_context import RequestContext
from model.record_batch import Buffer, read_header
from model.record_codec import CorruptRecordsError, RecordPosition, record_positions, unpack_records
from runtime.workers import Pool, Workers
from storage.errors import StorageError

_Topic = ListOffsetsResponse.ListOffsetsTopicResponse
_Partition = ListOffsetsResponse.ListOffsetsPartitionResponse

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
# From which version on each special timestamp exists.
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_FIRST_VERSION_WITH_NOT_AVAILABLE = 5

# Records looked at before other tasks run: a batch of a hostile client may unpack to tens of millions.
_RECORDS_PER_STEP = 1000


async def handle_list_offsets(
    context: RequestContext, version: int, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """Answer for each partition; only a leader in office knows."""
    topics = []
    for asked_topic in request.topics:
        topic = find_topic(context, asked_topic.name, "", by_id=False)
        results = []
        for asked in asked_topic.partitions:
            result = _Partition(partition_index=asked.partition_index)
            results.append(result)
            found = (
                topic
                if isinstance(topic, ErrorCode)
                else find_leader(context, topic, asked.partition_index, asked.current_leader_epoch)
            )
            if isinstance(found, ErrorCode):
                result.error_code = _not_yet(context, topic, asked.partition_index, version, found)
            else:
                await _answer(context, found, version, asked.timestamp, result)
        topics.append(_Topic(name=asked_topic.name, partitions=results))
    return ListOffsetsResponse(topics=topics)


def _not_yet(
    context: RequestContext, topic: Topic | ErrorCode, number: int, version: int, error: ErrorCode
) -> ErrorCode:
    """A leader that is elected but not yet in office says that the offset is not available yet (KIP-207)."""
    if error is not ErrorCode.NOT_LEADER_OR_FOLLOWER or isinstance(topic, ErrorCode):
        return error
    partition = context.node.partitions.get(topic.group(number))
    if partition is None or not partition.consensus.state.is_leader:
        return error
    if version >= _FIRST_VERSION_WITH_NOT_AVAILABLE:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


async def _answer(
    context: RequestContext, partition: Partition, version: int, timestamp: int, result: _Partition
) -> None:
    if timestamp < 0 and version < _SINCE.get(timestamp, version + 1):
        result.error_code = ErrorCode.UNSUPPORTED_VERSION
        return
    try:
        if timestamp == LATEST:
            result.offset, result.leader_epoch = partition.high_watermark, partition.leader_epoch
        elif timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = partition.start_offset
            result.offset, result.leader_epoch = start, partition.epoch_of(start)
        elif timestamp == LATEST_TIERED:
            pass  # Nothing is tiered: offset and epoch stay -1.
        else:
            await _by_timestamp(context, partition, timestamp, result)
    except StorageError as error:
        result.error_code = error_code(error)
    except CorruptRecordsError:
        # Compressed by the client into something no codec reads; the broker never looked inside before.
        result.error_code = ErrorCode.CORRUPT_MESSAGE


async def _by_timestamp(context: RequestContext, partition: Partition, timestamp: int, result: _Partition) -> None:
    wanted = await partition.max_timestamp() if timestamp == MAX_TIMESTAMP else timestamp
    if wanted is None:
        return
    hit = await partition.find_timestamp(wanted)
    if hit is None:
        return
    record = await first_record_at(context.node.env.workers, hit.batch, wanted)
    if record is None:
        return
    result.offset, result.timestamp, result.leader_epoch = record.offset, record.timestamp, hit.term


async def first_record_at(workers: Workers, batch: Buffer, timestamp: int) -> RecordPosition | None:
    """Return the first record of a whole v2 batch with a timestamp at or after `timestamp`, None if there is none.

    Raises:
        CorruptRecordsError: The records cannot be unpacked or read.
    """
    header = read_header(batch)
    if header.uses_log_append_time:
        return RecordPosition(header.base_offset, header.max_timestamp) if header.max_timestamp >= timestamp else None
    data = await workers.run(Pool.READ, lambda: unpack_records(batch))
    for number, position in enumerate(record_positions(header, data), start=1):
        if position.timestamp >= timestamp:
            return position
        if number % _RECORDS_PER_STEP == 0:
            await asyncio.sleep(0)
    return None
