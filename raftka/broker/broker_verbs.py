"""Verbs that drain, empty, replace and remove brokers (RFC 0020). `GET /v1/brokers` lists them all.

GET   /v1/brokers/N                   one broker: what it holds, leads, and waits for
POST  /v1/brokers/N/drain, undrain    it leads nothing and gets nothing, or may again
POST  /v1/brokers/N/decommission      its replicas and its vote in raft0 go elsewhere
POST  /v1/brokers/N/recommission      what is still there stays
POST  /v1/brokers/N/retire-directory  {"directory_id", "accept_waiting": false}: its directory never counts again
POST  /v1/brokers/N/remove            an empty broker is in the cluster no longer

Each answer has what `GET /v1/brokers/N` has. `retire-directory` lists in `without_majority` the partitions that would
have no leader for ever; it refuses while there are any, unless `accept_waiting` says that they may wait. Without
`directory_id` it retires a broker's first directory only.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from itertools import islice

from cluster.broker_changes import ChangeBrokerRequest
from cluster.broker_rules import check_unnamed_retirement
from cluster.broker_waits import going_from, joins_again, lost_for_ever, staying, votes_in_raft0
from cluster.errors import BrokerInUseError, UnknownBrokerError
from cluster.members_table import BrokerState, Member
from cluster.node import Node
from cluster.topic_table import Topic
from kafka_api.protocol.error_codes import ErrorCode
from model.counted import counted
from model.ids import NodeId, Replica
from raftka.broker.admin_verbs import Change, Changing, Outcome, Read, Verb, VerbError, until_known
from raftka.broker.broker_rows import member_json
from rpc.links import SILENCE_SECONDS

IN_USE = "BROKER_IN_USE"
REPLACED = "DIRECTORY_REPLACED"
WITHOUT_MAJORITY = "WITHOUT_MAJORITY"
_PARTITIONS_PER_STEP = 100
_NAMED_MAX = 100


class ChangeBroker(Changing, frozen=True, kw_only=True):
    """Which broker it is about, the path says."""


class RetireDirectory(Changing, frozen=True, kw_only=True):
    """`directory_id`: only that one; empty: the one that the broker has now, if it has replaced none."""

    directory_id: str = ""
    accept_waiting: bool = False


async def _show(node: Node, parts: Mapping[str, str]) -> object:
    member = _member(node, _number(parts))
    told, waits_for = await _described(node, member)
    return {"node_id": int(member.node_id), "waits_for": waits_for, **told}


def _number(parts: Mapping[str, str]) -> NodeId:
    text = parts["node_id"]
    if not re.fullmatch("[0-9]{1,9}", text):
        raise VerbError(400, ErrorCode.INVALID_REQUEST.name, f"{text[:60]!r} is no node id")
    return NodeId(int(text))


def _member(node: Node, node_id: NodeId) -> Member:
    member = node.controller.members.member(node_id)
    if member is None:
        raise _unknown(f"broker {node_id} is not in the cluster")
    return member


def _unknown(message: str) -> VerbError:
    return VerbError(404, ErrorCode.BROKER_ID_NOT_REGISTERED.name, message)


async def _change(
    node: Node, node_id: NodeId, change: str, body: Changing, directory_id: str = ""
) -> tuple[Mapping[str, object], str, int]:
    """Have raft0's leader change a broker, or check it; return what is told of it, what it waits for, and the index.

    Raises:
        VerbError: It is refused.
        ClusterError: It is refused by a name of Kafka's, or nobody answers.
    """
    request = ChangeBrokerRequest(node_id, change, directory_id, body.dry_run, body.timeout)
    try:
        reply = await node.broker_changes.change(request)
    except UnknownBrokerError as error:
        raise _unknown(str(error)) from error
    except BrokerInUseError as error:
        raise VerbError(409, IN_USE, str(error)) from error
    await until_known(node, reply.applied_index)
    member = node.controller.members.member(node_id)
    told, waits_for = ({}, "") if member is None else await _described(node, member)
    return told, "" if body.dry_run else waits_for, reply.applied_index


def _changing(name: str, change: str) -> Change[ChangeBroker]:
    async def run(node: Node, body: ChangeBroker, parts: Mapping[str, str]) -> Outcome:
        node_id = _number(parts)
        told, waits_for, index = await _change(node, node_id, change, body)
        return Outcome(waits_for, {"node_id": int(node_id), **told}, index)

    return Change(f"/v1/brokers/{{node_id}}/{name}", ChangeBroker, run)


async def _retire(node: Node, body: RetireDirectory, parts: Mapping[str, str]) -> Outcome:
    node_id = _number(parts)
    member = _member(node, node_id)
    if not body.directory_id:
        try:
            check_unnamed_retirement(node.controller.members, member)
        except BrokerInUseError as error:
            raise VerbError(409, REPLACED, str(error)) from error
    directory = body.directory_id or member.replica.directory_id
    lost = Replica(node_id, member.replica.directory_id)
    if _answers(node, lost) and directory == lost.directory_id:
        raise VerbError(
            409,
            IN_USE,
            f"the data directory of broker {node_id} is in use: broker {node.options.node_id} sees its link work; stop"
            " that broker first, and only if its disk is lost",
        )
    waiting = [] if directory != lost.directory_id else await _without_majority(node, lost)
    details = {"node_id": int(node_id), "directory_id": directory, "without_majority": waiting}
    # What is retired already stays so: to ask again only tells what is still to come.
    if waiting and not body.accept_waiting and directory not in node.controller.members.retired:
        raise VerbError(
            409,
            WITHOUT_MAJORITY,
            f"{counted(len(waiting), 'partition')} would have no leader for ever without data"
            f" directory {directory} of broker {node_id}: {waiting[0]['partition']}: {waiting[0]['why']}",
            details,
        )
    told, waits_for, index = await _change(node, node_id, "retire", body, directory)
    return Outcome(waits_for, {**told, **details}, index)


def _answers(node: Node, replica: Replica) -> bool:
    """Whether a data directory answers as its node on a link of this broker."""
    return replica == node.replica or node.links.heard_replica(replica.node_id, SILENCE_SECONDS) == replica


async def _without_majority(node: Node, lost: Replica) -> list[dict[str, str]]:
    found = {}
    async for topic, number in partitions_in_steps(node):
        why = lost_for_ever(topic, number, lost, lambda replica: _answers(node, replica))
        if why is not None:
            found[topic.partition_name(number)] = why
    for status in await node.move_status.read():
        # Who is only to get the partition has none of what is lost.
        if status.lost and lost in status.move.replicas and any(lost.node_id in nodes for nodes in status.lost):
            found.setdefault(status.topic.partition_name(status.number), status.why_stuck)
    return [{"partition": name, "why": why} for name, why in found.items()]


async def partitions_in_steps(node: Node) -> AsyncIterator[tuple[Topic, int]]:
    """Yield all partitions; other tasks run between steps."""
    places = ((topic, number) for topic in node.controller.topics.all() for number in range(len(topic.replicas)))
    while step := list(islice(places, _PARTITIONS_PER_STEP)):
        for place in step:
            yield place
        await asyncio.sleep(0)


async def _described(node: Node, member: Member) -> tuple[dict[str, object], str]:
    """Return what is told of a broker, and what it waits for in words; empty: nothing."""
    members, node_id = node.controller.members, member.node_id
    is_going = going_from(members, node_id)
    stuck = {
        status.topic.partition_name(status.number): f"its move, which waits until {status.waits_for}"
        for status in await node.move_status.read()
        if status.waits_for
    }
    to_move = moving = held = led = 0
    waiting: list[dict[str, str]] = []
    only_here: list[str] = []
    async for topic, number in partitions_in_steps(node):
        holders = [replica.node_id for replica in topic.holders(number)]
        if node_id not in holders:
            continue
        held += 1
        leader = node.leadership.leader_of(topic.group(number))
        led += leader is not None and leader.node_id == node_id
        if holders == [node_id]:
            only_here.append(topic.partition_name(number))
        stays = staying(topic, number, members, is_going, node.is_alive)
        if stays is None:
            continue
        to_move, moving = to_move + 1, moving + stays.is_moving
        why = stays.why or stuck.get(stays.name, "")
        if why:
            waiting.append({"partition": stays.name, "why": why})
    votes = votes_in_raft0(node.controller.raft0, is_going)
    told = {
        **member_json(node, member),
        "alive": node.is_alive(node_id),
        "replicas": held,
        "led": led,
        "only_here": only_here[:_NAMED_MAX],
        "only_here_count": len(only_here),
        "to_move": to_move,
        "moving": moving,
        "waiting": waiting[:_NAMED_MAX],
        "waiting_count": len(waiting),
        "vote_to_move": votes,
    }
    return told, _in_words(node, member, told)


def _in_words(node: Node, member: Member, told: Mapping[str, object]) -> str:
    found = []
    if node.controller.members.is_retired(member) and member.state is not BrokerState.DECOMMISSIONING:
        found.append(joins_again(member.node_id))
    if to_move := _count(told, "to_move"):
        found.append(f"{counted(to_move, 'replica')} to move ({told['moving']} on the way)")
    waiting = told["waiting"]
    if isinstance(waiting, list) and waiting:
        wait = "1 waits" if _count(told, "waiting_count") == 1 else f"{told['waiting_count']} wait"
        found.append(f"{wait}: {waiting[0]['partition']} for {waiting[0]['why']}")
    if told["vote_to_move"]:
        found.append("raft0 to get another voter in its place")
    if member.state is BrokerState.DRAINING and (leads := _to_hand_over(told)):
        found.append(f"{counted(leads, 'partition')} to get another leader")
    return "; ".join(found)


def _count(told: Mapping[str, object], key: str) -> int:
    count = told[key]
    assert isinstance(count, int)
    return count


def _to_hand_over(told: Mapping[str, object]) -> int:
    """Return how many partitions a draining broker still leads, apart from those that nobody else holds."""
    return max(_count(told, "led") - _count(told, "only_here_count"), 0)


BROKER_VERBS: tuple[Verb, ...] = (
    Read("/v1/brokers/{node_id}", _show),
    *(_changing(name, name) for name in ("drain", "undrain", "decommission", "recommission", "remove")),
    Change("/v1/brokers/{node_id}/retire-directory", RetireDirectory, _retire),
)
