"""Who votes in a group, and the policy that turns voters into quorums."""

from dataclasses import dataclass
from typing import Protocol

from model.ids import NodeId, Replica
from raft.rules.agreement import Quorum


@dataclass(frozen=True, slots=True)
class GroupConfiguration:
    """The voters of a group.

    Attributes:
        voter_sets: One set; two while a joint configuration is in force (thesis 4.3), where both must agree.
            A node has at most one replica of a group.
    """

    voter_sets: tuple[tuple[Replica, ...], ...]

    def __post_init__(self) -> None:
        assert self.voter_sets
        for voters in self.voter_sets:
            assert voters
            assert len({voter.node_id for voter in voters}) == len(voters), "two replicas on one node"

    @classmethod
    def of(cls, voters: tuple[Replica, ...]) -> "GroupConfiguration":
        """Return the simple configuration of `voters`."""
        return cls((voters,))

    def replica_on(self, node_id: NodeId) -> Replica | None:
        """Return the replica that lives on a node, if any."""
        for voters in self.voter_sets:
            for voter in voters:
                if voter.node_id == node_id:
                    return voter
        return None

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        """The nodes that hold a replica, in ascending order."""
        return tuple(sorted({voter.node_id for voters in self.voter_sets for voter in voters}))


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
