"""OffsetFetch (9): what groups have committed. One group up to version 7, several from 8 on."""

from collections.abc import Iterable, Mapping, Sequence
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


class _Found(NamedTuple):
    error: ErrorCode
    # By topic: partition and what is committed there.
    topics: dict[str, list[tuple[int, CommittedOffset]]]


async def handle_offset_fetch(
    context: RequestContext, version: int, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    """Answer with committed offsets only, hence stable ones; a partition without one is answered with -1."""
    if version >= _FIRST_VERSION_WITH_GROUPS:
        kept = await context.groups.confirmed([asked.group_id for asked in request.groups])
        return OffsetFetchResponse(groups=list(map(_group, request.groups, kept)))
    places = None
    if request.topics is not None:
        places = [(topic.name, number) for topic in request.topics for number in topic.partition_indexes]
    (active,) = await context.groups.confirmed([request.group_id])
    found = _find(active, request.group_id, places)
    # Version 1 has nowhere else to say what is wrong.
    error = found.error if version < _FIRST_VERSION_WITH_ERROR else ErrorCode.NONE
    topics = [
        OffsetFetchResponse.OffsetFetchResponseTopic(
            name=name,
            partitions=[
                OffsetFetchResponse.OffsetFetchResponsePartition(
                    partition_index=number,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata,
                    error_code=error,
                )
                for number, offset in partitions
            ],
        )
        for name, partitions in found.topics.items()
    ]
    return OffsetFetchResponse(topics=topics, error_code=found.error)


def _group(
    asked: OffsetFetchRequest.OffsetFetchRequestGroup, active: CoordinatedPartition | ErrorCode
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    places = None
    if asked.topics is not None:
        places = [(topic.name, number) for topic in asked.topics for number in topic.partition_indexes]
    found = _find(active, asked.group_id, places)
    return OffsetFetchResponse.OffsetFetchResponseGroup(
        group_id=asked.group_id,
        error_code=found.error,
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    OffsetFetchResponse.OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                    )
                    for number, offset in partitions
                ],
            )
            for name, partitions in found.topics.items()
        ],
    )


def _find(active: CoordinatedPartition | ErrorCode, group_id: str, places: Sequence[_Place] | None) -> _Found:
    """Return the offsets at these places; None asks for all of the group."""
    if isinstance(active, ErrorCode):
        return _Found(active, _by_topic(places or (), {}))
    committed = active.table.offsets(group_id)
    return _Found(ErrorCode.NONE, _by_topic(sorted(committed) if places is None else places, committed))


def _by_topic(
    places: Iterable[_Place], committed: Mapping[_Place, CommittedOffset]
) -> dict[str, list[tuple[int, CommittedOffset]]]:
    topics: dict[str, list[tuple[int, CommittedOffset]]] = {}
    for place in places:
        topics.setdefault(place[0], []).append((place[1], committed.get(place, _NOTHING)))
    return topics
