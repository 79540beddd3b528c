"""Which changes of brokers the tables refuse (RFC 0020). Pure; asked again when a command is applied."""

from collections.abc import Iterable

from cluster.errors import BrokerInUseError, InvalidReplicaAssignmentError, InvalidReplicationFactorError
from cluster.members_table import BrokerState, Member, MembersTable
from cluster.move_index import INTERNAL_REPLICAS
from cluster.raft0_table import Raft0Table
from cluster.topic_table import Topic, TopicTable
from model.counted import counted
from model.ids import NodeId, Replica

_NAMED_MAX = 10


def check_decommission(members: MembersTable, topics: TopicTable, node_id: NodeId) -> None:
    """Raise InvalidReplicationFactorError if a topic has more replicas than brokers would be left to hold them.

    Internal topics get along with fewer replicas, but not with none: `evacuation` takes from them what no broker is
    left for.
    """
    left = [
        member
        for member in members.admitted()
        if member.node_id != node_id and member.state is BrokerState.ACTIVE and not members.is_retired(member)
    ]
    large = [topic.name for topic in topics.all() if _needed(topic) > len(left)]
    if large:
        shown = ", ".join(large[:_NAMED_MAX]) + (f" and {len(large) - _NAMED_MAX} more" if large[_NAMED_MAX:] else "")
        raise InvalidReplicationFactorError(
            f"without broker {node_id} the cluster has {counted(len(left), 'active broker')}, and these topics have"
            f" more replicas: {shown}; add a broker, or lower their replication factor"
            " (`raftka topic alter-replication`)"
        )


def _needed(topic: Topic) -> int:
    """Return how many brokers a topic needs: as many as a partition has replicas, or is to have."""
    if topic.is_internal:
        return 1
    targets = (topic.move_of(number) for number in topic.placements)
    counts = [len(move.target) for move in targets if move is not None]
    return max([*map(len, topic.replicas), *counts])


def refusal_of_placing(members: MembersTable, replicas: Iterable[Replica], held: Iterable[Replica] = ()) -> str | None:
    """Return why a partition cannot be placed so; None: it can.

    Args:
        members: The brokers.
        replicas: Where a partition is to be.
        held: Where it is, or is on its way. A broker that is there may keep it, though it gets nothing new.
    """
    known = frozenset(held)
    present = (members.member(replica.node_id) for replica in known)
    # Where a node has joined with a new directory, the replica goes on in that one.
    keeping = {member.replica for member in present if member is not None and not members.is_retired(member)}
    for replica in replicas:
        if replica in known or replica in keeping:
            continue
        refusal = members.refusal_of_replica(replica)
        if refusal is not None:
            return refusal
    return None


def check_placed(members: MembersTable, replicas: Iterable[Replica], held: Iterable[Replica] = ()) -> None:
    """Raise InvalidReplicaAssignmentError if a replica would be where brokers get none; see `refusal_of_placing`.

    raft0's leader has looked at that before it proposed. The brokers may have changed between its look and this
    command: what was in its log then, and not applied, comes first.
    """
    refusal = refusal_of_placing(members, replicas, held)
    if refusal is not None:
        raise InvalidReplicaAssignmentError(f"{refusal}; the brokers have changed meanwhile: ask again")


def check_unnamed_retirement(members: MembersTable, member: Member) -> None:
    """Raise BrokerInUseError if a broker's present directory has come in the place of another one.

    Whoever repeats a request after a time-out means the first one. It has been retired, and the broker has joined with
    the present one since. That one is retired only by its name.
    """
    if member.replaced and not members.is_retired(member):
        node, now = member.node_id, member.replica.directory_id
        raise BrokerInUseError(
            f"broker {node} has joined with data directory {now} in the place of {member.replaced}, which is retired;"
            f" no directory is named, so nothing more is retired. If {now} is lost, too:"
            f" raftka broker replace {node} --directory {now}"
        )


def check_enough_brokers(members: MembersTable, replicas: int) -> None:
    """Raise InvalidReplicationFactorError if there are too few brokers only because some get no replicas now."""
    usable = len(members.usable())
    waiting = [each for each in members.admitted() if each.state is not BrokerState.ACTIVE or members.is_retired(each)]
    if usable < replicas <= len(members.admitted()) and waiting:
        away = [str(members.refusal_of(each.node_id)) for each in waiting]
        raise InvalidReplicationFactorError(
            f"replication factor {replicas}: {counted(usable, 'broker')} of {len(members.admitted())} may get replicas:"
            f" {'; '.join(away[:_NAMED_MAX])}; add a broker, or let these get replicas again (`raftka broker undrain`,"
            " `recommission`)"
        )


def check_internal_count(topic: Topic, members: MembersTable, before: int, after: int) -> None:
    """Raise InvalidReplicationFactorError if an internal topic would get fewer replicas than the brokers keep it at.

    raft0's leader would give it more again at once (`evacuation`).

    Args:
        topic: Any; others than internal ones may get fewer.
        members: The brokers.
        before, after: How many replicas the partition has, or is to have by now, and how many are wanted.
    """
    kept = min(INTERNAL_REPLICAS, len(members.usable()))
    if topic.is_internal and after < min(before, kept):
        raise InvalidReplicationFactorError(
            f"{topic.name} is an internal topic, and the brokers keep it at {counted(kept, 'replica')}"
            f" ({INTERNAL_REPLICAS}, or as many as there are active brokers): they would add to {after} at once"
        )


def check_remove(topics: TopicTable, raft0: Raft0Table, node_id: NodeId) -> None:
    """Raise BrokerInUseError while a placement, or raft0's, names the broker."""
    voters = raft0.voters if raft0.move is None else raft0.move.replicas
    if any(voter.node_id == node_id for voter in voters):
        raise BrokerInUseError(
            f"broker {node_id} votes in raft0: run `raftka broker decommission {node_id}` and wait until another votes"
        )
    count = topics.replica_count(node_id)
    if count:
        raise BrokerInUseError(
            f"broker {node_id} still holds {counted(count, 'replica')}: run `raftka broker decommission {node_id}`, and"
            " wait until it is empty"
        )
