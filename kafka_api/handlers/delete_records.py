"""DeleteRecords (21): the log of a partition begins later; what lies before is gone for consumers at once."""

from cluster.errors import ClusterError
from cluster.partition import HIGH_WATERMARK, Partition
from kafka_api.error_mapping import error_code
from kafka_api.handlers.in_steps import in_steps
from kafka_api.handlers.partition_lookup import find_changeable, find_topic
from kafka_api.handlers.topic_admin import request_deadline
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from kafka_api.request_context import RequestContext
from raft.errors import RaftError
from storage.errors import StorageError

_Topic = DeleteRecordsResponse.DeleteRecordsTopicResult
_Result = DeleteRecordsResponse.DeleteRecordsPartitionResult

_NO_OFFSET = -1


async def handle_delete_records(
    context: RequestContext, _: int, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """Move the start of each partition that this broker leads; one that fails does not keep the others from it."""
    deadline = request_deadline(request.timeout_ms)
    topics = []
    async for asked in in_steps(request.topics):
        topic = find_topic(context, asked.name, "", by_id=False)
        results = []
        async for each in in_steps(asked.partitions):
            found = topic if isinstance(topic, ErrorCode) else find_changeable(context, topic, each.partition_index)
            result = _Result(partition_index=each.partition_index, low_watermark=_NO_OFFSET)
            results.append(result)
            if isinstance(found, ErrorCode):
                result.error_code = found
            else:
                await _delete(found, each.offset, deadline, result)
        topics.append(_Topic(name=asked.name, partitions=results))
    return DeleteRecordsResponse(topics=topics)


async def _delete(partition: Partition, offset: int, deadline: float, result: _Result) -> None:
    if not partition.config.is_deleted:
        # As in Kafka: a table that only grows and compacts must not lose keys.
        result.error_code = ErrorCode.POLICY_VIOLATION
        return
    if not HIGH_WATERMARK <= offset <= partition.high_watermark:
        result.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return
    try:
        result.low_watermark = await partition.delete_records(offset, deadline)
    except (ClusterError, RaftError, StorageError) as error:
        result.error_code = error_code(error)
