"""ListOffsets (2): earliest, latest, and the first offset at or after a timestamp."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cluster.partition import Partition
from cluster.topic_table import Topic
from kafka_api.error_mapping import error_code
from kafka_api.handlers.in_steps import in_steps
from kafka_api.handlers.partition_lookup import find_leader, find_topic
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from kafka_api.request_context import RequestContext
from model.ids import Index, Offset, Term
from model.record_batch import Buffer, read_header
from model.record_codec import CorruptRecordsError, RecordPosition, record_positions, unpack_records
from raft.errors import NotLeaderError, RaftError
from runtime.workers import HungWorkersError, Pool, Workers
from storage.errors import HungReadError, StorageError

_Topic = ListOffsetsResponse.ListOffsetsTopicResponse
_Partition = ListOffsetsResponse.ListOffsetsPartitionResponse

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
# From which version on each special timestamp exists.
_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_FIRST_VERSION_WITH_NOT_AVAILABLE = 5
_READ_COMMITTED = 1
# Nothing is tiered: they have no offset, and no epoch.
_OF_TIERS = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
# What does not depend on the newest records.
_OF_THE_PAST = (EARLIEST, EARLIEST_LOCAL, *_OF_TIERS)

# Records looked at before other tasks run: a batch of a hostile client may unpack to tens of millions.
_RECORDS_PER_STEP = 1000


@dataclass(slots=True)
class _Read:
    """One partition that is led here, and what was known of it when the request came."""

    partition: Partition
    timestamp: int
    result: _Partition
    end: Offset
    epoch: Term
    read_committed: bool
    begun: asyncio.Future[None] | None


async def handle_list_offsets(
    context: RequestContext, version: int, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """Answer for each partition; only a leader in office knows.

    What depends on the newest records is a linearizable read, unless the topic has `list.offsets.linearizable=false`:
    a leader that was deposed without knowing it does not answer. All partitions of the request wait at the same time.
    At read_committed nothing at or behind the last stable offset is told.
    """
    topics = []
    reads: list[_Read] = []
    read_committed = request.isolation_level == _READ_COMMITTED
    async for asked_topic in in_steps(request.topics):
        topic = find_topic(context, asked_topic.name, "", by_id=False)
        results = []
        async for asked in in_steps(asked_topic.partitions):
            result = _Partition(partition_index=asked.partition_index)
            results.append(result)
            found = (
                topic
                if isinstance(topic, ErrorCode)
                else find_leader(context, topic, asked.partition_index, asked.current_leader_epoch)
            )
            if isinstance(found, ErrorCode):
                result.error_code = _not_yet(context, topic, asked.partition_index, version, found)
            elif asked.timestamp < 0 and version < _SINCE.get(asked.timestamp, version + 1):
                result.error_code = ErrorCode.UNSUPPORTED_VERSION
            else:
                try:
                    reads.append(_begin(found, asked.timestamp, result, read_committed=read_committed))
                except NotLeaderError as error:
                    result.error_code = error_code(error)
        topics.append(_Topic(name=asked_topic.name, partitions=results))
    async for read in in_steps(reads):
        await _finish(context, read, version)
    return ListOffsetsResponse(topics=topics)


def _begin(partition: Partition, timestamp: int, result: _Partition, *, read_committed: bool) -> _Read:
    end = partition.high_watermark
    if read_committed and timestamp not in _OF_THE_PAST:
        end = partition.last_stable_offset
    begun = partition.begin_read() if _is_confirmed(partition, timestamp) else None
    return _Read(partition, timestamp, result, end, partition.leader_epoch, read_committed, begun)


def _is_confirmed(partition: Partition, timestamp: int) -> bool:
    """Return whether a majority confirms the leader before this is answered.

    The start of a log is not worth a round: it only ever moves forward, so a deposed leader tells at worst an earlier
    one (RFC 0008 section 7). The topic decides about what depends on the newest records.
    """
    return timestamp not in _OF_THE_PAST and partition.config.list_offsets_linearizable


async def _finish(context: RequestContext, read: _Read, version: int) -> None:
    try:
        if read.begun is not None:
            await read.partition.confirm_read(read.begun)
        await _answer(context, read)
        # What was confirmed, and read, was one leadership's: a read may hang until after the next one of this broker.
        if not read.partition.is_in_office or read.partition.leader_epoch != read.epoch:
            raise NotLeaderError(f"the leadership of epoch {read.epoch} ended while the log was read")
    except (StorageError, RaftError) as error:
        read.result.error_code = _for_version(error_code(error), version)
    except CorruptRecordsError:
        # Compressed by the client into something no codec reads; the broker never looked inside before.
        read.result.error_code = ErrorCode.CORRUPT_MESSAGE


def _not_yet(
    context: RequestContext, topic: Topic | ErrorCode, number: int, version: int, error: ErrorCode
) -> ErrorCode:
    """A leader that is elected but not yet in office says that the offset is not available yet (KIP-207)."""
    if error is not ErrorCode.NOT_LEADER_OR_FOLLOWER or isinstance(topic, ErrorCode):
        return error
    partition = context.node.partitions.get(topic.group(number))
    if partition is None or not partition.is_leader:
        return error
    return _for_version(ErrorCode.OFFSET_NOT_AVAILABLE, version)


def _for_version(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.OFFSET_NOT_AVAILABLE and version < _FIRST_VERSION_WITH_NOT_AVAILABLE:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error


async def _answer(context: RequestContext, read: _Read) -> None:
    partition, result = read.partition, read.result
    if read.timestamp == LATEST:
        result.offset, result.leader_epoch = read.end, read.epoch
    elif read.timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = partition.start_offset
        result.offset, result.leader_epoch = start, partition.epoch_of(start)
    elif read.timestamp not in _OF_TIERS:
        await _by_timestamp(context, read)


async def _by_timestamp(context: RequestContext, read: _Read) -> None:
    partition, timestamp, result, read_committed = read.partition, read.timestamp, read.result, read.read_committed
    # The log start may lie inside a batch (DeleteRecords): what is below it was deleted, whatever the batch holds.
    workers, start = context.node.env.workers, partition.start_offset
    wanted = await _max_timestamp(workers, read, start) if timestamp == MAX_TIMESTAMP else timestamp
    if wanted is None:
        return
    hit = await partition.find_timestamp(wanted, read_committed=read_committed)
    while hit is not None:
        record = await first_record_at(workers, hit.batch, wanted, start)
        if record is not None:
            result.offset, result.timestamp, result.leader_epoch = record.offset, record.timestamp, hit.term
            return
        # The record that the batch's largest timestamp stands for was deleted, or its producer has told another one.
        first = Index(hit.log_index + 1)
        hit = await partition.find_timestamp(wanted, first=first, read_committed=read_committed)


async def _max_timestamp(workers: Workers, read: _Read, start: Offset) -> int | None:
    """Return the largest timestamp of the records from `start` on that the client may see."""
    partition, read_committed = read.partition, read.read_committed
    largest = await partition.max_timestamp(read_committed=read_committed)
    hit = None if largest is None else await partition.find_timestamp(largest, read_committed=read_committed)
    if hit is None:
        return largest
    header = read_header(hit.batch)
    if header.base_offset >= start or header.uses_log_append_time:
        return largest
    # It may be that of a deleted record: looked for in what is left of this batch, and in all the others.
    left: list[int] = []

    def keep(position: RecordPosition) -> bool:
        if position.offset >= start:
            left[:] = [max([position.timestamp, *left])]
        return False

    await _first_record(workers, hit.batch, keep)
    others = await partition.max_timestamp(first=Index(hit.log_index + 1), read_committed=read_committed)
    return max(left if others is None else [*left, others], default=None)


async def first_record_at(workers: Workers, batch: Buffer, timestamp: int, start: Offset) -> RecordPosition | None:
    """Return the first record of a whole v2 batch from offset `start` on that is not older than `timestamp`, or None.

    Raises:
        CorruptRecordsError: The records cannot be unpacked or read.
        HungReadError: No thread is free for it: too many reads of the disk hang.
    """
    header = read_header(batch)
    if header.uses_log_append_time:
        first = max(header.base_offset, start)
        is_there = header.max_timestamp >= timestamp and first <= header.base_offset + header.last_offset_delta
        return RecordPosition(first, header.max_timestamp) if is_there else None
    return await _first_record(workers, batch, lambda each: each.timestamp >= timestamp and each.offset >= start)


async def _first_record(
    workers: Workers, batch: Buffer, is_wanted: Callable[[RecordPosition], bool]
) -> RecordPosition | None:
    try:
        data = await workers.run(Pool.READ, lambda: unpack_records(batch))
    except HungWorkersError as error:
        raise HungReadError(str(error)) from error
    for number, position in enumerate(record_positions(read_header(batch), data), start=1):
        if is_wanted(position):
            return position
        if number % _RECORDS_PER_STEP == 0:
            await asyncio.sleep(0)
    return None
