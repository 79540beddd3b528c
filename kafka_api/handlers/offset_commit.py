"""OffsetCommit (8): a group's positions, on the disks of a majority before it is answered."""

import asyncio

from cluster.groups.records import CommittedOffset
from kafka_api.groups.group_events import Identity
from kafka_api.handlers.answered_later import answer_when_done
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import OffsetCommitRequest, OffsetCommitResponse
from kafka_api.request_context import RequestContext

_Place = tuple[str, int]


async def handle_offset_commit(
    context: RequestContext, version: int, request: OffsetCommitRequest
) -> "OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]":
    """Commit what may be committed, all of it at once; the rest is refused by itself.

    `retention_time_ms` of old versions counts for nothing, as in Kafka since 2.1: `offsets.retention.minutes` does.
    """
    refused: dict[_Place, ErrorCode] = {}
    offsets: dict[_Place, CommittedOffset] = {}
    now_ms = context.node.env.wall_clock.now_ms()
    for topic in request.topics:
        for asked in topic.partitions:
            place = (topic.name, asked.partition_index)
            error = judge_offset(context, topic.name, asked.partition_index, asked.committed_metadata)
            if error is not ErrorCode.NONE:
                refused[place] = error
            else:
                metadata = asked.committed_metadata or ""
                offsets[place] = CommittedOffset(asked.committed_offset, asked.committed_leader_epoch, metadata, now_ms)
    identity = Identity(request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
    committed = context.groups.commit(request.group_id, identity, offsets)
    return answer_when_done(committed, lambda error: _response(request, refused, error))


def judge_offset(context: RequestContext, name: str, partition: int, metadata: str | None) -> ErrorCode:
    """Return why an offset is refused by itself, whoever commits it."""
    topic = context.node.controller.topics.get(name)
    if topic is None or not 0 <= partition < len(topic.replicas):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len((metadata or "").encode()) > context.groups.options.offset_metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _response(
    request: OffsetCommitRequest, refused: dict[_Place, ErrorCode], committed: ErrorCode
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=refused.get((topic.name, each.partition_index), committed),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
