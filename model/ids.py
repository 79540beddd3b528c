"""Identities and positions.

Positions in a Raft log are *indexes* (dense, +1 per entry, from 1); positions of a consumer are *offsets*
(dense, +1 per record, from 0). The two never share a name (docs/glossary.md).
"""

from enum import IntEnum
from typing import NamedTuple, NewType

Index = NewType("Index", int)
Offset = NewType("Offset", int)
Term = NewType("Term", int)
NodeId = NewType("NodeId", int)

# The directory id: 32 hex digits, drawn when a data directory is made. A wiped disk has another one, so it can
# never be taken for the replica it replaced (counterexample 4).
DirectoryId = NewType("DirectoryId", str)

# A topic id: 32 hex digits. A recreated topic has another one.
TopicId = NewType("TopicId", str)

# A Raft group: "<topic id>/<partition>", or RAFT0. It never contains FORCED_MARK.
GroupId = NewType("GroupId", str)

RAFT0 = GroupId("raft0")

# In the names of groups on links it stands before the revision that has forced the group's configuration.
FORCED_MARK = "~"

# The index before the first entry.
NO_INDEX = Index(0)


class Replica(NamedTuple):
    """One replica of a group: a node together with the data directory it lives in."""

    node_id: NodeId
    directory_id: DirectoryId


class ConsistencyLevel(IntEnum):
    """How much must have happened before a write is answered; the value is Kafka's `acks`."""

    QUORUM_ACK = -1
    NO_ACK = 0
    LEADER_ACK = 1


def partition_group(topic_id: TopicId, partition: int) -> GroupId:
    """Return the group of one partition."""
    assert len(topic_id) == 32
    assert FORCED_MARK not in topic_id
    assert partition >= 0
    return GroupId(f"{topic_id}/{partition}")


def link_name(group: GroupId, forced: tuple[int, int]) -> str:
    """Return what messages call a group whose configuration was forced by the revision (generation, index): G~0.7."""
    assert FORCED_MARK not in group
    generation, index = forced
    assert generation >= 0
    assert index >= 0
    return f"{group}{FORCED_MARK}{generation}.{index}"


def group_of_link_name(name: str) -> GroupId:
    """Return the group that a name on links is for, whatever revision it has; of an id, the id."""
    group, _, _ = name.partition(FORCED_MARK)
    return GroupId(group)


def number_of(group: GroupId) -> int:
    """Return the number of a partition's group within its topic."""
    return int(group.rpartition("/")[2])


def topic_of(group: GroupId) -> TopicId:
    """Return the topic of a partition's group."""
    topic_id, _, _ = group.partition("/")
    return TopicId(topic_id)
