"""Verbs that move partitions between brokers (RFC 0019 section 6).

GET   /v1/moves                       the partitions that are being moved, and what each waits for; `cannot_move` has
                                      those of which retired data directories leave no majority
POST  /v1/moves                       {"moves": [{"topic", "partition", "replicas"}], "may_change_count": false}
POST  /v1/moves/cancel                {"partitions": [{"topic", "partition"}]}, or {"all": true}
POST  /v1/topics/{topic}/replication  {"replication_factor": N}: each partition gets so many replicas

Each partition is accepted or refused by itself. If all are refused, the answer is an error, that of the first; it has
`partitions` all the same. Of one that is accepted and can decide nothing now, `waits_for` says until what it waits.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from cluster.broker_rules import check_enough_brokers, check_internal_count
from cluster.broker_waits import retired_voters, waits_for_force
from cluster.errors import BY_NAME, ClusterError, NoReassignmentError, UnknownTopicError
from cluster.move_status import MoveStatus, until_a_majority
from cluster.node import Node
from cluster.placements import AlterPlacementsRequest, RefusedMove, WantedMove
from cluster.replication_spread import spread
from cluster.topic_table import Topic
from kafka_api.error_mapping import error_code
from model.counted import counted
from model.ids import NodeId
from raftka.broker.admin_verbs import Change, Changing, Outcome, Read, Verb, VerbError, refusal_of, until_known
from raftka.broker.broker_verbs import partitions_in_steps

_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=249)]


class NamedPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A partition."""

    topic: _Name
    partition: _Number


class Moving(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A partition, and the brokers that shall hold it, the preferred one first."""

    topic: _Name
    partition: _Number
    replicas: list[_Number]


class MovePartitions(Changing, frozen=True, kw_only=True):
    """`may_change_count`: also to more or fewer replicas than a partition has."""

    moves: Annotated[list[Moving], msgspec.Meta(min_length=1)]
    may_change_count: bool = False


class CancelMoves(Changing, frozen=True, kw_only=True):
    """Those that are named, or all."""

    partitions: tuple[NamedPartition, ...] = ()
    all: bool = False


class AlterReplication(Changing, frozen=True, kw_only=True):
    """How many replicas each partition of the topic shall have."""

    replication_factor: _Number


async def _list(node: Node, _: Mapping[str, str]) -> object:
    moves = [_row(status) for status in await node.move_status.read()]
    return {"moves": moves, "cannot_move": [each async for each in _cannot_move(node)]}


async def _cannot_move(node: Node) -> AsyncIterator[dict[str, object]]:
    """Yield the partitions whose voters cannot agree on others any more; other tasks run between steps."""
    retired = node.controller.members.retired
    if not retired:
        return
    async for topic, number in partitions_in_steps(node):
        if waits_for_force(topic, number, retired):
            yield {
                "topic": topic.name,
                "partition": number,
                "replicas": [int(each.node_id) for each in topic.replicas[number]],
                "retired": retired_voters(topic, number, retired),
            }


def _row(status: MoveStatus) -> dict[str, object]:
    move, replica = status.move, status.replica
    return {
        "topic": status.topic.name,
        "partition": status.number,
        "origin": [int(each.node_id) for each in move.origin],
        "target": [int(each.node_id) for each in move.target],
        "is_cancelled": move.is_cancelled,
        "state": status.state,
        "leader": replica.node_id if replica is not None and replica.is_leader else None,
        "voter_sets": [] if replica is None else replica.voter_sets,
        "learners": [] if replica is None else replica.learners,
        "lacks": [] if replica is None else [{"node": node, "entries": count} for node, count in replica.lacks],
        "lost_voter_sets": status.lost,
        "away": status.away,
        "retired": status.retired,
        "waits_for": status.waits_for,
        "idle_seconds": None if replica is None else replica.idle_ms / 1000,
    }


async def _move(node: Node, body: MovePartitions, _: Mapping[str, str]) -> Outcome:
    wanted = [WantedMove(each.topic, each.partition, each.replicas) for each in body.moves]
    return await _alter(node, wanted, body, may_change_count=body.may_change_count)


async def _cancel(node: Node, body: CancelMoves, _: Mapping[str, str]) -> Outcome:
    if body.all == bool(body.partitions):
        raise VerbError(400, "INVALID_REQUEST", 'name "partitions", or say "all": true')
    if body.all:
        # What another broker has begun a moment ago counts, too.
        named = [
            WantedMove(topic.name, number, None)
            for topic in node.controller.topics.all()
            for number in topic.placements
            if (move := topic.move_of(number)) is not None and not move.is_cancelled
        ]
        if not named:
            return Outcome(_waits_for(node, _moving(node)), {"partitions": []})
    else:
        named = [WantedMove(each.topic, each.partition, None) for each in body.partitions]
    return await _alter(node, named, body, may_change_count=True)


async def _alter_replication(node: Node, body: AlterReplication, path: Mapping[str, str]) -> Outcome:
    topics = node.controller.topics
    topic = topics.get(path["topic"])
    if topic is None:
        raise UnknownTopicError(f"no topic {path['topic'][:260]!r}")
    counts = {
        NodeId(broker.node_id): topics.replica_count(NodeId(broker.node_id))
        for broker in node.controller.members.usable()
    }
    numbers = range(len(topic.replicas))
    placed = [_placed(topic, number) for number in numbers]
    # Said once, and not for each partition.
    check_internal_count(topic, node.controller.members, max(map(len, placed)), body.replication_factor)
    leaders = [_leader(node, topic, number) for number in numbers]
    check_enough_brokers(node.controller.members, body.replication_factor)
    targets = spread(counts, placed, leaders, body.replication_factor)
    wanted = [WantedMove(topic.name, number, [int(each) for each in targets[number]]) for number in numbers]
    # What has enough replicas, or is on its way there, stays as it is.
    wanted = [each for each in wanted if each.target != placed[each.partition]]
    if not wanted:
        return Outcome(_waits_for(node, [(topic, number) for number in numbers]), {"partitions": []})
    return await _alter(node, wanted, body, may_change_count=True)


def _placed(topic: Topic, number: int) -> list[NodeId]:
    move = topic.move_of(number)
    return [replica.node_id for replica in (topic.replicas[number] if move is None else move.target)]


def _leader(node: Node, topic: Topic, number: int) -> NodeId | None:
    leader = node.leadership.leader_of(topic.group(number))
    return leader.node_id if leader is not None and node.is_alive(leader.node_id) else None


async def _alter(node: Node, wanted: Sequence[WantedMove], body: Changing, *, may_change_count: bool) -> Outcome:
    """Ask raft0's leader.

    Raises:
        VerbError: It has refused each of them.
        ClusterError: It refuses the request as a whole, or nobody answers.
    """
    there = {(each.topic, each.partition) for each in wanted if _is_there(node, each)}
    request = AlterPlacementsRequest(list(wanted), may_change_count, body.timeout, validate_only=body.dry_run)
    before = {(topic.name, number) for topic, number in _moving(node) if topic.move_of(number) is not None}
    reply = await node.placements.alter(request)
    await until_known(node, reply.applied_index)
    refused = {(each.topic, each.partition): each for each in reply.refused if not _goes_back_already(node, each)}
    accepted = [each for each in wanted if (each.topic, each.partition) not in refused]
    waits_of = await _without_majority(node, accepted, before)
    rows = [
        _told(
            each,
            refused.get((each.topic, each.partition)),
            is_there=(each.topic, each.partition) in there,
            waits_for=waits_of.get((each.topic, each.partition), ""),
        )
        for each in wanted
    ]
    if rows and all(row["error"] for row in rows):
        first = next(iter(refused.values()))
        raise refusal_of(_error(first), {"partitions": rows})
    named = ((node.controller.topics.get(each.topic), each.partition) for each in wanted)
    waits = "" if body.dry_run else _waits_for(node, [(topic, number) for topic, number in named if topic is not None])
    return Outcome(waits, {"partitions": rows}, reply.applied_index)


async def _without_majority(
    node: Node, accepted: Sequence[WantedMove], before: Collection[tuple[str, int]]
) -> dict[tuple[str, int], str]:
    """Return, by topic and number, until what groups wait whose voters can decide nothing as they are.

    Args:
        node: Which has applied the moves, if this is no dry run.
        accepted: Moves and cancellations.
        before: The partitions that were being moved before the request.
    """
    found, retired_ids = {}, node.controller.members.retired
    doubtful = []
    for each in accepted:
        topic = node.controller.topics.get(each.topic)
        if topic is not None and each.partition < len(topic.replicas):
            holders = topic.holders(each.partition)
            if not all(
                node.is_alive(replica.node_id) and replica.directory_id not in retired_ids for replica in holders
            ):
                doubtful.append((topic, each.partition))
    if not doubtful:
        return {}
    statuses = {(each.topic.name, each.number): each for each in await node.move_status.read()}
    for topic, number in doubtful:
        where = (topic.name, number)
        status = statuses.get(where)
        if status is not None and status.lost:
            found[where] = status.waits_for
        elif status is None or (status.replica is None and where not in before):
            # It votes as it did before the move, which may not be known to its holders yet.
            voters = topic.replicas[number]
            away = sorted(int(each.node_id) for each in voters if not node.is_alive(each.node_id))
            retired = [
                int(each.node_id) for each in voters if each.directory_id in retired_ids and each.node_id not in away
            ]
            if 2 * (len(voters) - len(away) - len(retired)) <= len(voters):
                found[where] = until_a_majority([sorted(int(each.node_id) for each in voters)], away, retired)
    return found


def _goes_back_already(node: Node, refused: RefusedMove) -> bool:
    """Whether a move was cancelled before: to ask again does no harm."""
    topic = node.controller.topics.get(refused.topic)
    if refused.error != NoReassignmentError.__name__ or topic is None:
        return False
    move = topic.move_of(refused.partition)
    return move is not None and move.is_cancelled


def _is_there(node: Node, wanted: WantedMove) -> bool:
    """Whether a partition is where it shall be, and is not being moved: then nothing changes."""
    topic = node.controller.topics.get(wanted.topic)
    if topic is None or wanted.partition >= len(topic.replicas) or topic.move_of(wanted.partition) is not None:
        return False
    return _placed(topic, wanted.partition) == wanted.target


def _told(wanted: WantedMove, refused: RefusedMove | None, *, is_there: bool, waits_for: str) -> dict[str, Any]:
    return {
        "topic": wanted.topic,
        "partition": wanted.partition,
        "replicas": wanted.target,
        "is_there": is_there,
        "error": None if refused is None else error_code(_error(refused)).name,
        "message": None if refused is None else refused.message,
        "waits_for": waits_for,
    }


def _error(refused: RefusedMove) -> ClusterError:
    return BY_NAME.get(refused.error, ClusterError)(refused.message)


def _moving(node: Node) -> list[tuple[Topic, int]]:
    return [(topic, number) for topic in node.controller.topics.all() for number in topic.placements]


def _waits_for(node: Node, partitions: Sequence[tuple[Topic, int]]) -> str:
    count = sum(topic.move_of(number) is not None for topic, number in partitions if number < len(topic.replicas))
    return f"{counted(count, 'partition')} to be moved: GET /v1/moves says what each waits for" * (count > 0)


MOVE_VERBS: tuple[Verb, ...] = (
    Read("/v1/moves", _list),
    Change("/v1/moves", MovePartitions, _move),
    Change("/v1/moves/cancel", CancelMoves, _cancel),
    Change("/v1/topics/{topic}/replication", AlterReplication, _alter_replication),
)
