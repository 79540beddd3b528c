"""What the whole cluster has done in one run: the ground truth that invariants compare replicas with."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from model.ids import GroupId, Replica
from tests.simulation.world.original_log import OriginalLog
from tests.simulation.world.replica_view import Ghost

VoterSets = tuple[frozenset[Replica], ...]


def is_majority_of(voter_sets: VoterSets, replicas: Collection[Replica]) -> bool:
    """Whether `replicas` include a majority of each set."""
    return all(2 * len(voters.intersection(replicas)) > len(voters) for voters in voter_sets)


def reached_by_majority(voter_sets: VoterSets, reached: Mapping[Replica, int]) -> int:
    """Return up to where a majority of each set is, given how far replicas are; 0: no majority is anywhere."""
    return min(
        sorted((reached.get(voter, 0) for voter in voters), reverse=True)[len(voters) // 2] for voters in voter_sets
    )


@dataclass(slots=True)
class History:
    """Facts over all replicas and lives.

    Attributes:
        committed: Per group, the entry at each index as it was first committed anywhere; `committed[g][i]` has index
            i + 1.
        originals: Per group that may be compacted, what its log has held before.
        commit_terms: Per group and index like `committed`, the term of the leader that committed it.
        visible: Per group and index, the entry as a leader first showed it.
        may_begin_at: Per group, the offsets at which DeleteRecords or retention may let its logs begin; groups that
            nobody watches are not in it.
        sent_at_quorum: Content of every batch that a leader was asked to answer only once it is committed.
        sent: Content of every batch a producer has handed over, and of every marker.
        lost_power: Node ids that have lost un-fsynced bytes at least once.
        counts: What happened how often ("sometimes" probes).
        voter_sets: Per group, each set whose majority decides in it: those of whoever has shown or
            committed anything last; before, those that its first replica was opened with.
        deciders: The same, of whoever has committed the newest of `committed`.
        min_in_sync: min.insync.replicas of the topic that records go to.
        has_transactions: Clients have transactions.
    """

    voter_sets: dict[GroupId, VoterSets] = field(default_factory=dict)
    deciders: dict[GroupId, VoterSets] = field(default_factory=dict)
    min_in_sync: int = 1
    has_transactions: bool = False
    committed: dict[GroupId, list[Ghost]] = field(default_factory=dict)
    originals: dict[GroupId, OriginalLog] = field(default_factory=dict)
    commit_terms: dict[GroupId, list[int]] = field(default_factory=dict)
    visible: dict[GroupId, dict[int, Ghost]] = field(default_factory=dict)
    may_begin_at: dict[GroupId, set[int]] = field(default_factory=dict)
    sent_at_quorum: set[bytes] = field(default_factory=set)
    sent: set[bytes] = field(default_factory=set)
    lost_power: dict[int, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def is_majority(self, group: GroupId, replicas: Collection[Replica]) -> bool:
        """Whether `replicas` include a majority of each of a group's own voter sets."""
        return is_majority_of(self.voter_sets[group], replicas)

    def shows_late(self, group: GroupId) -> bool:
        """Whether a leader may show later than it commits: min.insync.replicas asks for more than a majority."""
        sets = self.voter_sets[group]
        return any(min(self.min_in_sync, len(voters)) > len(voters) // 2 + 1 for voters in sets)

    def committed_in(self, group: GroupId) -> list[Ghost]:
        """Return the committed entries of a group."""
        return self.committed.setdefault(group, [])

    def original_log(self, group: GroupId) -> OriginalLog:
        """Return what the log of a group has held before it was compacted."""
        if group not in self.originals:
            self.originals[group] = OriginalLog(self.committed_in(group))
        return self.originals[group]

    def commit_terms_in(self, group: GroupId) -> list[int]:
        """Return the terms in which the committed entries of a group were committed; they never fall."""
        return self.commit_terms.setdefault(group, [])

    def visible_in(self, group: GroupId) -> dict[int, Ghost]:
        """Return the entries of a group that consumers could have seen, by index."""
        return self.visible.setdefault(group, {})
