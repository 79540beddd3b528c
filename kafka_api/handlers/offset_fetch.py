"""OffsetFetch (9): what groups have committed. One group up to version 7, several from 8 on."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from cluster.groups.records import CommittedOffset
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import OffsetFetchRequest, OffsetFetchResponse
from kafka_api.request_context import RequestContext

_FIRST_VERSION_WITH_ERROR = 2
_FIRST_VERSION_WITH_GROUPS = 8
# What was never committed, as clients are told it.
_NOTHING = CommittedOffset(-1, -1, "", 0)

_Place = tuple[str, int]


class _Offset(NamedTuple):
    """What is committed in a partition, or why that is not told."""

    partition: int
    committed: CommittedOffset
    error: ErrorCode = ErrorCode.NONE


class _Found(NamedTuple):
    error: ErrorCode
    # By topic.
    topics: dict[str, list[_Offset]]


async def handle_offset_fetch(
    context: RequestContext, version: int, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Answer with committed offsets only; a partition without one is answered with -1.

    Who requires stable ones is told to come again where a transaction may commit another one soon (KIP-447).
    """
    is_stable = request.require_stable
    if version >= _FIRST_VERSION_WITH_GROUPS:
        kept = await context.groups.confirmed([asked.group_id for asked in request.groups])
        groups = [_group(*each, is_stable=is_stable) for each in zip(request.groups, kept, strict=True)]
        return OffsetFetchResponse(groups=groups)
    places = None
    if request.topics is not None:
        places = [(topic.name, number) for topic in request.topics for number in topic.partition_indexes]
    (active,) = await context.groups.confirmed([request.group_id])
    found = _find(active, request.group_id, places, is_stable=is_stable)
    # Version 1 has nowhere else to say what is wrong.
    error = found.error if version < _FIRST_VERSION_WITH_ERROR else ErrorCode.NONE
    topics = [
        OffsetFetchResponse.OffsetFetchResponseTopic(
            name=name,
            partitions=[
                OffsetFetchResponse.OffsetFetchResponsePartition(
                    partition_index=each.partition,
                    committed_offset=each.committed.offset,
                    committed_leader_epoch=each.committed.leader_epoch,
                    metadata=each.committed.metadata,
                    error_code=error or each.error,
                )
                for each in partitions
            ],
        )
        for name, partitions in found.topics.items()
    ]
    return OffsetFetchResponse(topics=topics, error_code=found.error)


def _group(
    asked: OffsetFetchRequest.OffsetFetchRequestGroup, active: CoordinatedPartition | ErrorCode, *, is_stable: bool
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    places = None
    if asked.topics is not None:
        places = [(topic.name, number) for topic in asked.topics for number in topic.partition_indexes]
    found = _find(active, asked.group_id, places, is_stable=is_stable)
    return OffsetFetchResponse.OffsetFetchResponseGroup(
        group_id=asked.group_id,
        error_code=found.error,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartitions(
                        partition_index=each.partition,
                        committed_offset=each.committed.offset,
                        committed_leader_epoch=each.committed.leader_epoch,
                        metadata=each.committed.metadata,
                        error_code=each.error,
                    )
                    for each in partitions
                ],
            )
            for name, partitions in found.topics.items()
        ],
    )


def _find(
    active: CoordinatedPartition | ErrorCode, group_id: str, places: Sequence[_Place] | None, *, is_stable: bool
) -> _Found:
    """Return the offsets at these places; None asks for all of the group. With `is_stable` only stable ones."""
    if isinstance(active, ErrorCode):
        return _Found(active, _by_topic(places or (), {}))
    committed = active.table.offsets(group_id)
    pending: set[_Place] = set()
    if is_stable:
        pending = {(each.topic, each.partition) for each in active.table.pending.places(group_id)}
    if places is None:
        # What is pending was asked for, too: who would not hear of it would begin anew there.
        places = sorted(pending.union(committed))
    return _Found(ErrorCode.NONE, _by_topic(places, committed, pending))


def _by_topic(
    places: Iterable[_Place], committed: Mapping[_Place, CommittedOffset], pending: Collection[_Place] = ()
) -> dict[str, list[_Offset]]:
    topics: dict[str, list[_Offset]] = {}
    for place in places:
        if place in pending:
            offset = _Offset(place[1], _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        else:
            offset = _Offset(place[1], committed.get(place, _NOTHING))
        topics.setdefault(place[0], []).append(offset)
    return topics
