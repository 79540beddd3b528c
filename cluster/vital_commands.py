"""Which commands raft0's tables take beyond their bound, up to what a snapshot may have (RFC 0008 section 6). Pure.

A cluster must be able to say where it is, and to repair itself: a broker whose disk is lost must be replaced, and one
that is to leave must be emptied, however many topics there are. Such a command adds little, and only once for each
partition.
"""

from cluster.commands import (
    AllocateProducerIds,
    AlterPlacements,
    Command,
    FinishPlacement,
    OfBrokers,
    PlacementRecord,
    RegisterBroker,
    SetFeature,
)
from cluster.members_table import MembersTable
from cluster.topic_table import TopicTable, placements
from model.ids import TopicId


def is_vital(command: Command, topics: TopicTable, members: MembersTable) -> bool:
    """Whether the cluster needs a command to say where it is, or to repair itself, by these tables.

    Brokers, their producer ids, features, raft0's voters, and the ends of moves are vital. Moves are if each of them
    is: see `_repairs`.
    """
    if isinstance(command, AlterPlacements):
        return command.of_raft0 is not None or all(_repairs(each, topics, members) for each in command.placements)
    return isinstance(command, RegisterBroker | AllocateProducerIds | SetFeature | FinishPlacement | OfBrokers)


def _repairs(record: PlacementRecord, topics: TopicTable, members: MembersTable) -> bool:
    """Whether a move is taken back, leaves out who must leave, only leaves out some, or is of an internal topic."""
    topic = topics.get_by_id(TopicId(record.topic_id))
    if topic is None or record.partition >= len(topic.replicas):
        return False
    if record.target is None or topic.is_internal:
        return True
    move = topic.move_of(record.partition)
    wanted = frozenset(topic.replicas[record.partition] if move is None else move.target)
    (target,) = map(frozenset, placements([record.target]))
    return target < wanted or any(map(members.must_leave, wanted - target))
