"""DescribeLogDirs (35): what the partitions of this broker take on its disk. A broker has one data directory."""

import os.path
from collections.abc import Iterable, Iterator

from cluster.partition import Partition
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafka_api.request_context import RequestContext
from runtime.workers import HungWorkersError, Pool

_LogDir = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic = DescribeLogDirsResponse.DescribeLogDirsTopic
_Partition = DescribeLogDirsResponse.DescribeLogDirsPartition


async def handle_describe_log_dirs(
    context: RequestContext, _: int, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe the replicas here, of the partitions asked for (null: of all), leaders and followers alike.

    As in Kafka, a partition without a replica here is left out.
    """
    node = context.node
    directory, files = node.options.data_dir, node.env.files

    def look() -> _LogDir:
        log_dir = _LogDir(log_dir=os.path.abspath(directory), topics=[])
        try:
            log_dir.total_bytes, log_dir.usable_bytes = files.total_bytes(directory), files.free_bytes(directory)
        except OSError:
            log_dir.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return log_dir

    try:
        log_dir = await node.env.workers.run(Pool.READ, look)
    except HungWorkersError:
        log_dir = _LogDir(log_dir=directory, topics=[], error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    if log_dir.error_code:
        return DescribeLogDirsResponse(results=[log_dir])
    topics: dict[str, _Topic] = {}
    for partition in _asked(context, request):
        topic = topics.setdefault(partition.topic.name, _Topic(name=partition.topic.name, partitions=[]))
        topic.partitions.append(_described(partition))
    log_dir.topics = list(topics.values())
    return DescribeLogDirsResponse(results=[log_dir])


def _asked(context: RequestContext, request: DescribeLogDirsRequest) -> Iterable[Partition]:
    if request.topics is None:
        return sorted(context.node.partitions, key=lambda each: (each.topic.name, each.partition))
    # Once each, whatever is repeated.
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return _found(context, asked)


def _found(context: RequestContext, asked: dict[str, dict[int, None]]) -> Iterator[Partition]:
    for name, numbers in asked.items():
        topic = context.node.controller.topics.get(name)
        if topic is None:
            continue
        for number in numbers:
            if 0 <= number < len(topic.replicas):
                partition = context.node.partitions.get(topic.group(number))
                if partition is not None:
                    yield partition


def _described(partition: Partition) -> _Partition:
    # The lag is that of a replica between two directories; none is, and others know nothing committed beyond their end.
    return _Partition(partition_index=partition.partition, partition_size=partition.size_bytes, offset_lag=0)
