"""TxnOffsetCommit (28): a group's positions as a part of a producer's transaction (KIP-98, KIP-447)."""

import asyncio

from cluster.groups.records import CommittedOffset
from cluster.transactions.admission import PartitionName
from kafka_api.groups.group_events import Identity
from kafka_api.groups.transactional_commits import TransactionalCommit, commit_in_transaction
from kafka_api.handlers.answered_later import answer_when_done
from kafka_api.handlers.offset_commit import judge_offset
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafka_api.request_context import RequestContext
from kafka_api.transactions.admission_codes import admission_code
from model.record_batch import TRANSACTIONAL_MASK, BatchProducer

# From here on the broker adds the group's partition; before, clients do it by AddOffsetsToTxn.
_FIRST_VERSION_THAT_ADDS = 5

_Place = tuple[str, int]


async def handle_txn_offset_commit(
    context: RequestContext, version: int, request: TxnOffsetCommitRequest
) -> "TxnOffsetCommitResponse | asyncio.Future[TxnOffsetCommitResponse]":
    """Write what may be committed as one batch; the rest is refused by itself."""
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
    if (code := _judge_producer(request)) is not ErrorCode.NONE:
        return _response(request, refused, code)
    producer = BatchProducer(request.producer_id, request.producer_epoch, TRANSACTIONAL_MASK)
    identity = Identity(request.member_id, request.group_instance_id, request.generation_id)

    async def ask(partition: PartitionName, deadline: float) -> ErrorCode:
        is_add = version >= _FIRST_VERSION_THAT_ADDS
        who = (request.transactional_id, request.producer_id, request.producer_epoch)
        (answer,) = await context.node.admissions.ask(*who, [partition], is_add, deadline)
        return admission_code(answer, ApiKey.TXN_OFFSET_COMMIT, version)

    commit = TransactionalCommit(request.group_id, identity, offsets, producer)
    committed = await commit_in_transaction(context.groups, commit, ask)
    return answer_when_done(committed, lambda error: _response(request, refused, error))


def _judge_producer(request: TxnOffsetCommitRequest) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if request.producer_id < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.INVALID_PRODUCER_EPOCH if request.producer_epoch < 0 else ErrorCode.NONE


def _response(
    request: TxnOffsetCommitRequest, refused: dict[_Place, ErrorCode], committed: ErrorCode
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=refused.get((topic.name, each.partition_index), committed),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
