"""How raft0's state holds what was ever moved: partitions in its block "placements", raft0 in its block "raft0"."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import msgspec

from cluster.commands import are_replicas
from cluster.placement import Move, Placement, Replicas
from cluster.raft0_table import Raft0Placement
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


class SavedRaft0(msgspec.Struct, frozen=True, array_like=True):
    """raft0: who votes, or did before the move that is under way, and the rest as of a partition."""

    voters: _Replicas
    created_on: _Replicas
    finished: _Revision
    move: _SavedMove | None


_raft0_decoder: msgspec.msgpack.Decoder[SavedRaft0] = msgspec.msgpack.Decoder(SavedRaft0)
_decoder: msgspec.msgpack.Decoder[SavedPlacement] = msgspec.msgpack.Decoder(SavedPlacement)


def save_placement(topic_id: TopicId, partition: int, placement: Placement) -> SavedPlacement:
    """Return what is kept of a placement."""
    return SavedPlacement(
        topic_id, partition, list(placement.created_on), placement.finished, _saved_move(placement.move)
    )


def save_raft0(raft0: Raft0Placement) -> SavedRaft0:
    """Return what is kept of raft0's placement."""
    voters, placement = raft0
    return SavedRaft0(list(voters), list(placement.created_on), placement.finished, _saved_move(placement.move))


def _saved_move(move: Move | None) -> _SavedMove | None:
    if move is None:
        return None
    return _SavedMove(list(move.origin), list(move.target), move.revision, list(move.former))


def decode_placement(item: bytes) -> SavedPlacement:
    """Read what `save_placement` has returned and msgpack has encoded.

    Raises:
        msgspec.MsgspecError: It was not.
        ValueError: The replicas are impossible.
    """
    saved = _decoder.decode(item)
    if not _is_possible(saved.move, saved.created_on):
        raise ValueError(f"partition {saved.partition} of topic {saved.topic_id[:40]!r} has an impossible placement")
    return saved


def decode_raft0(item: bytes) -> Raft0Placement:
    """Read what `save_raft0` has returned and msgpack has encoded.

    Raises:
        msgspec.MsgspecError: It was not.
        ValueError: The voters are impossible.
    """
    saved = _raft0_decoder.decode(item)
    if not _is_possible(saved.move, saved.created_on, saved.voters):
        raise ValueError("raft0 has an impossible placement")
    placement = Placement(_replicas(saved.created_on), Revision(*saved.finished), _read_move(saved.move))
    return Raft0Placement(_replicas(saved.voters), placement)


def _is_possible(move: _SavedMove | None, *placed: _Replicas) -> bool:
    on_the_way = () if move is None else (move.origin, move.target)
    return all(are_replicas([node for node, _ in replicas]) for replicas in (*placed, *on_the_way))


def _read_move(saved: _SavedMove | None) -> Move | None:
    if saved is None:
        return None
    return Move(_replicas(saved.origin), _replicas(saved.target), Revision(*saved.revision), _replicas(saved.former))


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
        placement = Placement(_replicas(each.created_on), Revision(*each.finished), _read_move(each.move))
        found[each.topic_id][each.partition] = placement
    return [replace(topic, placements=found[topic.topic_id]) if found[topic.topic_id] else topic for topic in topics]


def _replicas(saved: _Replicas) -> Replicas:
    return tuple(Replica(NodeId(node), DirectoryId(directory)) for node, directory in saved)
