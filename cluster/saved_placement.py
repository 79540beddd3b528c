"""How raft0's state holds a partition that was ever moved: an item of its block "placements"."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import msgspec

from cluster.commands import are_replicas
from cluster.placement import Move, Placement, Replicas
from cluster.topic_table import Topic
from model.ids import DirectoryId, NodeId, Replica, TopicId
from raft.group_configuration import Revision

_Natural = Annotated[int, msgspec.Meta(ge=0)]
# (generation, index in raft0's log).
_Revision = tuple[_Natural, _Natural]
_Replicas = list[tuple[int, str]]


class _SavedMove(msgspec.Struct, frozen=True, array_like=True):
    origin: _Replicas
    target: _Replicas
    revision: _Revision
    former: _Replicas


class SavedPlacement(msgspec.Struct, frozen=True, array_like=True):
    """One partition."""

    topic_id: str
    partition: _Natural
    created_on: _Replicas
    finished: _Revision
    move: _SavedMove | None


_decoder: msgspec.msgpack.Decoder[SavedPlacement] = msgspec.msgpack.Decoder(SavedPlacement)


def save_placement(topic_id: TopicId, partition: int, placement: Placement) -> SavedPlacement:
    """Return what is kept of a placement."""
    move = placement.move
    saved = None
    if move is not None:
        saved = _SavedMove(list(move.origin), list(move.target), move.revision, list(move.former))
    return SavedPlacement(topic_id, partition, list(placement.created_on), placement.finished, saved)


def decode_placement(item: bytes) -> SavedPlacement:
    """Read what `save_placement` has returned and msgpack has encoded.

    Raises:
        msgspec.MsgspecError: It was not.
        ValueError: The replicas are impossible.
    """
    saved = _decoder.decode(item)
    placed = [saved.created_on] if saved.move is None else [saved.created_on, saved.move.origin, saved.move.target]
    if not all(are_replicas([node for node, _ in replicas]) for replicas in placed):
        raise ValueError(f"partition {saved.partition} of topic {saved.topic_id[:40]!r} has an impossible placement")
    return saved


def with_placements(topics: Sequence[Topic], saved: Sequence[SavedPlacement]) -> list[Topic]:
    """Return the topics with what was saved of their partitions.

    Raises:
        ValueError: Something was saved twice, or of a partition that does not exist.
    """
    found = {str(topic.topic_id): dict[int, Placement]() for topic in topics}
    partitions = {str(topic.topic_id): len(topic.replicas) for topic in topics}
    for each in saved:
        if each.partition >= partitions.get(each.topic_id, 0) or each.partition in found[each.topic_id]:
            raise ValueError(f"partition {each.partition} of topic {each.topic_id[:40]!r} is unknown, or there twice")
        move = None
        if each.move is not None:
            origin, target = _replicas(each.move.origin), _replicas(each.move.target)
            move = Move(origin, target, Revision(*each.move.revision), _replicas(each.move.former))
        placement = Placement(_replicas(each.created_on), Revision(*each.finished), move)
        found[each.topic_id][each.partition] = placement
    return [replace(topic, placements=found[topic.topic_id]) if found[topic.topic_id] else topic for topic in topics]


def _replicas(saved: _Replicas) -> Replicas:
    return tuple(Replica(NodeId(node), DirectoryId(directory)) for node, directory in saved)
