"""Which brokers hold raft0, and which of them may vote there: all that raft0 asks of the table of brokers."""

from typing import NamedTuple

from cluster.members_table import MembersTable
from cluster.placement import Replicas
from model.ids import DirectoryId, Replica
from raft.group_configuration import NO_REVISION, Revision


class Candidate(NamedTuple):
    """An admitted broker: it holds a replica of raft0, as a voter or as a learner.

    Attributes:
        replica: Its node and its directory.
        qualifies: It may vote. One that is being decommissioned gives way; one that drains, or is down, stays.
    """

    replica: Replica
    qualifies: bool


class Candidates(NamedTuple):
    """The brokers of the cluster as of an index of raft0.

    Attributes:
        admitted: All of them, in ascending order of node id.
        retired: Directories that will never be back.
        changed: The command by which this changed last; NO_REVISION: the cluster has its founders.
    """

    admitted: tuple[Candidate, ...]
    retired: frozenset[DirectoryId] = frozenset()
    changed: Revision = NO_REVISION


def raft0_candidates(members: MembersTable, founders: Replicas) -> Candidates:
    """Return the candidates by the tables: on every node the same as of the same index of raft0."""
    # No broker joins or leaves yet, so what has registered since adds nothing to the founders.
    del members
    return Candidates(tuple(Candidate(founder, qualifies=True) for founder in founders))
