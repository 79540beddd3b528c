"""What changes of brokers still wait for, partition by partition (RFC 0020). Pure: from tables to words.

A broker that is to be empty waits until its replicas have moved. A directory that was retired waits until the broker
has joined with a new one, and has got back what the old one held.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from cluster.evacuation import evacuated, next_target
from cluster.members_table import BrokerState, Member, MembersTable
from cluster.move_places import can_move, has_majority
from cluster.placement import Replicas
from cluster.raft0_table import Raft0Table
from cluster.topic_table import Topic
from model.counted import brokers, counted
from model.ids import DirectoryId, NodeId, Replica
from raft.membership_steps import FORCE

Going = Callable[[Replica], bool]


class Staying(NamedTuple):
    """A partition with a replica that is to go, and has not gone yet.

    Attributes:
        name: `orders-0`.
        is_moving: A move away from there is under way.
        why: Why none can begin; empty: one is under way, or soon will be.
    """

    name: str
    is_moving: bool
    why: str


def going_from(members: MembersTable, node_id: NodeId) -> Going:
    """Return which replicas are to go from a node: all, if it is to be empty; else those in retired directories."""
    member = members.member(node_id)
    is_all = member is None or member.state is BrokerState.DECOMMISSIONING
    return lambda replica: (
        replica.node_id == node_id and (is_all or replica.directory_id in members.retired or _is_older(member, replica))
    )


def _is_older(member: Member | None, replica: Replica) -> bool:
    return member is not None and member.replica != replica


def staying(
    topic: Topic,
    number: int,
    members: MembersTable,
    is_going: Going,
    is_alive: Callable[[NodeId], bool] = lambda _: True,
) -> Staying | None:
    """Return what keeps the replicas of a partition that are to go; None: it has none.

    Args:
        topic, number: The partition.
        members: The brokers.
        is_going: Which replicas are to go.
        is_alive: Whether a broker works, as the asked one sees it.
    """
    if not any(map(is_going, topic.holders(number))):
        return None
    name, move = topic.partition_name(number), topic.move_of(number)
    wanted = topic.replicas[number] if move is None else move.target
    kept = [replica for replica in wanted if is_going(replica)]
    if not kept:
        return Staying(name, is_moving=True, why="")
    if not can_move(topic, number, members.retired):
        return Staying(name, is_moving=False, why=FORCE)
    target = next_target(topic, number, members, {}, is_alive)
    if target is not None and not any(map(is_going, target)):
        return Staying(name, is_moving=False, why="")
    if_all_worked = evacuated(wanted, members, {}, may_shrink=topic.is_internal)
    if if_all_worked is not None and not any(map(is_going, if_all_worked)):
        return Staying(name, is_moving=False, why=_why_down(topic.replicas[number], if_all_worked, members, is_alive))
    return Staying(name, is_moving=False, why=_why_kept(members, kept[0]))


def _why_down(voters: Replicas, target: Replicas, members: MembersTable, is_alive: Callable[[NodeId], bool]) -> str:
    """Return who must work before replicas can go from some brokers to others."""
    present = [each for each in dict.fromkeys((*voters, *target)) if members.is_present(each)]
    working = {each for each in present if is_alive(each.node_id)}
    if not has_majority(voters, working):
        needed, what = voters, f"a majority of its {counted(len(voters), 'replica')}"
    else:
        needed, what = target, "brokers that are to hold it"
    away = sorted(each.node_id for each in needed if each in present and each not in working)
    return f"{what} to work" + (f": start {brokers(away)}" if away else "")


def retired_voters(topic: Topic, number: int, retired: Collection[DirectoryId]) -> tuple[int, ...]:
    """Return the nodes whose directory a partition votes with, and which never counts again; () while it is moved."""
    if not retired or topic.move_of(number) is not None:
        return ()
    return tuple(int(voter.node_id) for voter in topic.replicas[number] if voter.directory_id in retired)


def waits_for_force(topic: Topic, number: int, retired: Collection[DirectoryId]) -> bool:
    """Whether a partition that is not being moved can neither be led nor moved: retired directories never agree."""
    return bool(retired) and topic.move_of(number) is None and not can_move(topic, number, retired)


def _why_kept(members: MembersTable, replica: Replica) -> str:
    member = members.member(replica.node_id)
    if member is not None and member.state is not BrokerState.DECOMMISSIONING:
        return joins_again(replica.node_id)
    return "an active broker that does not hold it yet: add one, or lower the topic's replication factor"


def joins_again(node_id: NodeId) -> str:
    """Return what a retired directory waits for."""
    return f"broker {node_id} to join with an empty data.dir"


def votes_in_raft0(raft0: Raft0Table, is_going: Going) -> bool:
    """Whether a replica that is to go votes in raft0, or may."""
    voters = raft0.voters if raft0.move is None else raft0.move.replicas
    return any(map(is_going, voters))


def lost_for_ever(topic: Topic, number: int, lost: Replica, is_live: Callable[[Replica], bool]) -> str | None:
    """Return why a partition would get no leader without a directory; None: it would have one, or is not there.

    Its voters must agree on the replica that comes in the place of the lost one. So a majority of them must live: one
    that is lost counts, and never answers.

    Args:
        topic, number: The partition.
        lost: Node and directory that are retired, or are to be.
        is_live: Whether that directory answers as its node now.
    """
    voters = topic.replicas[number]
    if lost not in voters:
        return None
    if len(voters) == 1:
        return "it had no other replica, and its records are lost with that directory"
    away = [voter.node_id for voter in voters if voter != lost and not is_live(voter)]
    if 2 * (len(voters) - 1 - len(away)) > len(voters):
        return None
    if not away:
        return f"{len(voters) - 1} of {counted(len(voters), 'replica')} make no majority"
    return f"no majority of its {counted(len(voters), 'replica')} lives: start {brokers(sorted(away))} first"
