"""Who votes in a group, who learns, and the policy that turns voters into quorums (RFC 0019)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from model.ids import NodeId, Replica
from raft.rules.agreement import Quorum


class Revision(NamedTuple):
    """Which request a configuration comes from; a later one is greater.

    Attributes:
        generation: How often raft0 was recovered by hand: its indexes begin anew then.
        raft0_index: Of the command in raft0's log that asked; 0: the group was created with it.
    """

    generation: int
    raft0_index: int


NO_REVISION = Revision(0, 0)


VoterSets = tuple[tuple[Replica, ...], ...]


def configuration_flaw(voter_sets: VoterSets, learners: tuple[Replica, ...]) -> str | None:
    """Return why these can be no configuration; None if they can."""
    if not 1 <= len(voter_sets) <= 2:
        return f"there are {len(voter_sets)} voter sets"
    if not all(voter_sets):
        return "a voter set is empty"
    if any(len(set(voters)) != len(voters) for voters in voter_sets):
        return "a voter set names a replica twice"
    members = [*{voter for voters in voter_sets for voter in voters}, *learners]
    if len({member.node_id for member in members}) != len(members):
        return "two replicas of the group are on one node"
    return None


@dataclass(frozen=True, slots=True)
class GroupConfiguration:
    """The members of a group.

    Attributes:
        voter_sets: One set; two while a joint configuration is in force (thesis 4.3), where both must agree.
            A node has at most one replica of a group.
        learners: Get all entries and count nowhere: they do not vote, stand, or confirm.
        revision: The request that it comes from.
    """

    voter_sets: VoterSets
    learners: tuple[Replica, ...] = ()
    revision: Revision = NO_REVISION
    _by_node: dict[NodeId, Replica] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert (flaw := configuration_flaw(self.voter_sets, self.learners)) is None, flaw
        # Each heartbeat asks for one of them.
        object.__setattr__(self, "_by_node", {replica.node_id: replica for replica in self.replicas})

    @classmethod
    def of(cls, voters: tuple[Replica, ...]) -> "GroupConfiguration":
        """Return the simple configuration of `voters`."""
        return cls((voters,))

    @property
    def is_joint(self) -> bool:
        """Whether two voter sets must agree."""
        return len(self.voter_sets) == 2

    @property
    def replicas(self) -> Iterator[Replica]:
        """All members, voters first, each once."""
        found = dict.fromkeys(voter for voters in self.voter_sets for voter in voters)
        yield from found
        yield from self.learners

    def replica_on(self, node_id: NodeId) -> Replica | None:
        """Return the replica that lives on a node, if any."""
        return self._by_node.get(node_id)

    def is_voter(self, replica: Replica) -> bool:
        """Whether a replica is in one of the voter sets: on this node, and in this directory."""
        return any(replica in voters for voters in self.voter_sets)

    @property
    def voter_ids(self) -> tuple[NodeId, ...]:
        """The nodes of all voters, in ascending order."""
        return tuple(sorted({voter.node_id for voters in self.voter_sets for voter in voters}))

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        """The nodes that hold a replica, in ascending order."""
        return tuple(sorted(self._by_node))


class AgreementPolicy(Protocol):
    """How many replicas must hold an entry. Batcher and stms never learn which policy runs."""

    def commit_quorums(self, configuration: GroupConfiguration) -> tuple[Quorum, ...]:
        """Return the quorums of commit, barrier, configuration, votes and reads."""
        ...

    def answer_quorums(self, configuration: GroupConfiguration) -> tuple[Quorum, ...]:
        """Return the quorums of the answer to acks=all and of the visibility of own-term data."""
        ...

    def in_sync_quorums(self, configuration: GroupConfiguration) -> tuple[Quorum, ...]:
        """Return how many members must be in sync for acks=all to be taken at all."""
        ...


@dataclass(frozen=True, slots=True)
class RaftPolicy:
    """Majorities. `min_in_sync` raises only the answer and own-term visibility (counterexample 3)."""

    min_in_sync: int = 1

    def commit_quorums(self, configuration: GroupConfiguration) -> tuple[Quorum, ...]:
        """Return the majority of each voter set."""
        return tuple(
            Quorum(tuple(voter.node_id for voter in voters), len(voters) // 2 + 1)
            for voters in configuration.voter_sets
        )

    def answer_quorums(self, configuration: GroupConfiguration) -> tuple[Quorum, ...]:
        """Return, for each voter set, max(majority, min(min_in_sync, voters)) of it."""
        return tuple(
            Quorum(members, max(k, min(self.min_in_sync, len(members))))
            for members, k in self.commit_quorums(configuration)
        )

    def in_sync_quorums(self, configuration: GroupConfiguration) -> tuple[Quorum, ...]:
        """Return, for each voter set, min(min_in_sync, voters) of it."""
        return tuple(
            Quorum(members, min(self.min_in_sync, len(members))) for members, _ in self.commit_quorums(configuration)
        )
