"""Which brokers hold raft0, and which of them may vote there: all that raft0 asks of the table of brokers."""

from typing import NamedTuple

from cluster.members_table import FOUNDING_EPOCH, BrokerState, Member, MembersTable
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


def raft0_candidates(members: MembersTable) -> Candidates:
    """Return the candidates by the tables: on every node the same as of the same index of raft0."""
    found = tuple(Candidate(member.replica, qualifies=_qualifies(members, member)) for member in members.admitted())
    return Candidates(found, members.retired, members.changed)


def _qualifies(members: MembersTable, member: Member) -> bool:
    is_founder = member.epoch == FOUNDING_EPOCH
    # A founder votes from the founding on, also before it has registered.
    is_known = is_founder or members.get(member.node_id) is not None
    return is_known and member.state is not BrokerState.DECOMMISSIONING and not members.is_retired(member)
