"""What the whole cluster has done in one run: the ground truth that invariants compare replicas with."""

from collections import Counter
from dataclasses import dataclass, field

from model.ids import GroupId
from tests.simulation.replica_view import Ghost


@dataclass(slots=True)
class History:
    """Facts over all replicas and lives.

    Attributes:
        committed: Per group, the entry at each index as it was first committed anywhere; `committed[g][i]` has index
            i + 1.
        commit_terms: Per group and index like `committed`, the term of the leader that committed it.
        visible: Per group and index, the entry as a leader first showed it.
        may_begin_at: Per group, the offsets at which DeleteRecords or retention may let its logs begin; groups that
            nobody watches are not in it.
        sent_at_quorum: Content of every batch that a leader was asked to answer only once it is committed.
        sent: Content of every batch a producer has handed over.
        lost_power: Node ids that have lost un-fsynced bytes at least once.
        counts: What happened how often ("sometimes" probes).
        voters: Number of replicas of each group.
        shows_on_more_than_a_majority: min.insync.replicas is above the majority: a leader may show later than it commits.
    """

    voters: int = 3
    shows_on_more_than_a_majority: bool = False
    committed: dict[GroupId, list[Ghost]] = field(default_factory=dict)
    commit_terms: dict[GroupId, list[int]] = field(default_factory=dict)
    visible: dict[GroupId, dict[int, Ghost]] = field(default_factory=dict)
    may_begin_at: dict[GroupId, set[int]] = field(default_factory=dict)
    sent_at_quorum: set[bytes] = field(default_factory=set)
    sent: set[bytes] = field(default_factory=set)
    lost_power: dict[int, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def committed_in(self, group: GroupId) -> list[Ghost]:
        """Return the committed entries of a group."""
        return self.committed.setdefault(group, [])

    def commit_terms_in(self, group: GroupId) -> list[int]:
        """Return the terms in which the committed entries of a group were committed; they never fall."""
        return self.commit_terms.setdefault(group, [])

    def visible_in(self, group: GroupId) -> dict[int, Ghost]:
        """Return the entries of a group that consumers could have seen, by index."""
        return self.visible.setdefault(group, {})
