"""Term, vote, role and positions of one replica. Every change is one synchronous method.

In asyncio a synchronous method is the critical section: between two awaits nothing interleaves. The fibers around
this object read it, await one effect, check term and role again, and call one of these methods. What follows from the
change is the method's result (`raft.effects`): the state itself calls nobody.

Invariants, by their numbers in RFC 0003:
    S1  `follow` refuses a second leader of a term; term and vote of a replica change together
    S2  commit <= flushed <= dirty, visible <= dirty, matched <= dirty; if answers need no more copies than a majority,
        commit <= visible as well: `check_invariants`, after each change of term, role, vote or position
    S5  a leader truncates nothing, and no replica truncates at or below commit: `on_truncating`
    S8  one vote per term: `grant_vote`
    S9  nothing is matched, committed, truncated or led in a term that a restart could forget: `_require_durable_term`
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from model.ids import Index, NodeId, Offset, Replica, Term
from raft.configuration_log import ConfigurationLog
from raft.effects import LEADER_CHANGED, PROGRESSED, Elected, LeaderChanged, LeadershipLost, Moved, Progressed
from raft.errors import InvariantViolatedError
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.group_configuration import AgreementPolicy
from raft.rules import agreement
from raft.rules.agreement import CopyPosition, Quorum
from raft.rules.clean_indexes import CleanIndexes
from raft.rules.election import LogEnd
from raft.unreplicated_bytes import UnreplicatedBytes


class Role(Enum):
    """The paper's three roles, and FAILED: stopped for good. The value is the role's letter in log lines."""

    FOLLOWER = "F"
    CANDIDATE = "C"
    LEADER = "L"
    FAILED = "X"


class LocalLog(Protocol):
    """What the state reads of the local log; never copied, so it cannot drift."""

    @property
    def start_index(self) -> Index:
        """First index in the log."""
        ...

    @property
    def dirty_index(self) -> Index:
        """Last index written."""
        ...

    @property
    def last_term(self) -> Term:
        """Term of the dirty index."""
        ...

    @property
    def pending_index(self) -> Index:
        """Last index, an append in flight included."""
        ...

    @property
    def pending_term(self) -> Term:
        """Term of `pending_index`."""
        ...

    @property
    def flushed_index(self) -> Index:
        """Last index fsynced here."""
        ...

    @property
    def next_offset(self) -> Offset:
        """Offset of the next record."""
        ...

    def term_at(self, index: Index) -> Term:
        """Return the term at an index in [start - 1, last]."""
        ...


class ReplicaState:
    """See the module."""

    def __init__(
        self,
        self_replica: Replica,
        configurations: ConfigurationLog,
        policy: AgreementPolicy,
        log: LocalLog,
    ) -> None:
        self.self_replica = self_replica
        self.node_id = self_replica.node_id
        self.configurations = configurations
        self._policy = policy
        self._log = log
        self.commit_quorums: tuple[Quorum, ...] = ()
        self.answer_quorums: tuple[Quorum, ...] = ()
        self._in_sync_quorums: tuple[Quorum, ...] = ()
        self.counts_in_sync = False
        self._count_members()
        configurations.on_change = self._on_configuration
        self.write_caching = False
        self.role = Role.FOLLOWER
        self.term = Term(0)
        # The newest term that is durable in the kvstore: a restart begins in it or in a later one. Never above `term`.
        self.durable_term = Term(0)
        self.voted_for: NodeId | None = None
        # The log's end before damage removed entries (RFC 0008, floor); None: it lacks none of them.
        self.lost_end: LogEnd | None = None
        self.leader_id: NodeId | None = None
        self.commit_index = Index(0)
        self.visible_index = Index(0)
        # Follower: last index known equal to the log of the leader of `term`.
        self.matched_index = Index(0)
        # Leader: the first entry of its term; serving starts once it is committed.
        self.barrier_index = Index(0)
        self.followers: dict[NodeId, FollowerIndexMetadata] = {}
        # Of this leadership: how far the followers' logs are compacted.
        self.clean_indexes = CleanIndexes()
        # Leader: (first, last) index of each uncommitted round's writes that asked for a flush, oldest first.
        self._asked: deque[tuple[Index, Index]] = deque()
        self.unreplicated = UnreplicatedBytes()

    def restore(self, term: Term, voted_for: NodeId | None, lost_end: LogEnd | None = None) -> None:
        """Take what was persisted.

        The last entry's term is newer only where an older version wrote it before the term was durable (RFC 0003
        section 8): the replica was in that term, and persists it again before it acts in it.
        """
        assert self.term == 0
        assert self.role is Role.FOLLOWER
        self.lost_end = lost_end
        self.durable_term = term
        last_term = self._log.last_term if lost_end is None else max(self._log.last_term, lost_end.term)
        if last_term > term:
            term, voted_for = last_term, None
        self.term, self.voted_for = term, voted_for
        # What lay below the start was committed.
        self.commit_index = self.visible_index = Index(self._log.start_index - 1)

    # -- members ------------------------------------------------------------------------------------------------

    @property
    def may_stand(self) -> bool:
        """Whether this replica may stand for election: as a voter, or as one of before a configuration that may go.

        Without the second part a group could lose its last candidate: a leader appends a configuration without itself,
        which nobody else gets, and restarts. Its log is longer than what the others would need it to vote for
        (thesis 4.2.2).
        """
        return self.is_voter or any(each.is_voter(self.self_replica) for each in self.configurations.possible)

    def _count_members(self) -> None:
        configuration, policy = self.configurations.in_force, self._policy
        # Who the members are, by the newest configuration in the log. An attribute: each heartbeat asks for it.
        self.configuration = configuration
        # Whether this replica counts in one of the voter sets.
        self.is_voter = configuration.is_voter(self.self_replica)
        self.commit_quorums = policy.commit_quorums(configuration)
        self.answer_quorums = policy.answer_quorums(configuration)
        self._in_sync_quorums = policy.in_sync_quorums(configuration)
        self.counts_in_sync = self._needs_others_in_sync()

    def _on_configuration(self) -> None:
        """Another configuration is in force: count with it, and know a follower for each other member."""
        self._count_members()
        if self.role is Role.LEADER:
            self._know_followers()

    def _know_followers(self) -> None:
        """Leader: a follower for each other member, learners too; those that are known stay (RFC 0019)."""
        nodes = [node for node in self.configuration.node_ids if node != self.node_id]
        last = self._log.dirty_index
        self.followers = {
            node: self.followers.get(node) or FollowerIndexMetadata(node, expected_log_end_index=last) for node in nodes
        }

    # -- what is known ------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Elected in `term`; not yet a licence to serve (see `is_in_office`)."""
        return self.role is Role.LEADER

    @property
    def is_in_office(self) -> bool:
        """Elected, and the barrier of the own term is committed."""
        return self.role is Role.LEADER and self.commit_index >= self.barrier_index

    @property
    def is_term_durable(self) -> bool:
        """Whether a restart would come back in the current term; until then the replica does nothing in it (S9)."""
        return self.durable_term == self.term

    @property
    def log_end(self) -> LogEnd:
        """The end of the log for votes: appends in flight included (counterexample 19)."""
        return LogEnd(self._log.pending_term, self._log.pending_index)

    @property
    def flushed_end(self) -> LogEnd:
        """The end of what is durable here."""
        flushed = self._log.flushed_index
        return LogEnd(self._log.term_at(flushed), flushed)

    @property
    def is_refilling(self) -> bool:
        """Damage removed entries of this log. Until the others have sent them again, this replica does not lead."""
        return self.lost_end is not None

    @property
    def last_asked_index(self) -> Index:
        """Leader: last index of a write that waits for an fsync, 0 if there is none."""
        return self._asked[-1][1] if self._asked else Index(0)

    def position_of(self, node_id: NodeId) -> CopyPosition:
        """How far a member's log is known to equal the leader's."""
        if node_id == self.node_id:
            return CopyPosition(self._log.dirty_index, self._log.flushed_index)
        return self.followers[node_id].position

    def has_enough_in_sync(self, since: float) -> bool:
        """Leader: whether enough voters are in sync: since loop time `since`, each once held all that was committed."""
        for members, k in self._in_sync_quorums:
            in_sync = sum(node == self.node_id or self.followers[node].caught_up_at >= since for node in members)
            if in_sync < k:
                return False
        return True

    @property
    def min_in_sync(self) -> int:
        """How many voters must be in sync for acks=all to be taken: min.insync.replicas, at most the voters."""
        return max(k for _, k in self._in_sync_quorums)

    def _needs_others_in_sync(self) -> bool:
        return any(k > 1 or self.node_id not in members for members, k in self._in_sync_quorums)

    # -- term and role ------------------------------------------------------------------------------------------

    def adopt_term(self, term: Term) -> LeadershipLost | LeaderChanged:
        """Enter a newer term as follower, without a vote in it."""
        was_leader = self.role is Role.LEADER
        self._enter(term)
        self.check_invariants()
        return LeadershipLost(f"term {term} has begun") if was_leader else LEADER_CHANGED

    def _enter(self, term: Term) -> None:
        assert term > self.term
        self.term = term
        self.voted_for = None
        self._become_follower()

    def on_term_durable(self, term: Term) -> None:
        """The kvstore has synced `term`, the replica's term when that sync began."""
        assert term <= self.term
        self.durable_term = max(self.durable_term, term)

    def _require_durable_term(self) -> None:
        assert self.durable_term == self.term, f"acts in term {self.term}, durable is {self.durable_term}"

    def follow(self, leader: NodeId) -> LeaderChanged | None:
        """Accept `leader` as the leader of the current term; return None if it was already known.

        Raises:
            InvariantViolatedError: Another node leads this very term (election safety is broken).
        """
        if self.leader_id == leader and self.role is Role.FOLLOWER:
            return None
        if self.role is Role.LEADER or self.leader_id not in (None, leader):
            raise InvariantViolatedError(f"nodes {self.leader_id or self.node_id} and {leader} both lead {self.term}")
        if self.role is Role.CANDIDATE:
            self._become_follower()
        self.leader_id = leader
        self.check_invariants()
        return LEADER_CHANGED

    def lose_leader(self, reason: str) -> LeadershipLost | LeaderChanged:
        """Forget who leads the current term. If this replica leads, it steps down because of `reason`."""
        was_leader = self.role is Role.LEADER
        if was_leader:
            self._become_follower()
        self.leader_id = None
        self.check_invariants()
        return LeadershipLost(reason) if was_leader else LEADER_CHANGED

    def become_candidate(self) -> None:
        """Enter the next term and vote for ourselves; the caller makes both durable before it asks anybody.

        Nothing follows from it yet: this replica did not lead, and who leads the new term is still to be seen.
        """
        assert self.role in (Role.FOLLOWER, Role.CANDIDATE)
        # L3 of RFC 0019: a learner does not stand, and neither does who was removed.
        assert self.may_stand
        assert self._log.pending_index == self._log.dirty_index, "a candidate stands with what is written"
        self._enter(Term(self.term + 1))
        self.role = Role.CANDIDATE
        self.voted_for = self.node_id
        self.check_invariants()

    def grant_vote(self, candidate: NodeId, term: Term) -> None:
        """Give the vote of `term`; the caller makes it durable before it answers.

        A leader has observed the term first: its leadership ended in that step. So nothing follows from a vote.
        """
        assert self.role is not Role.LEADER
        if term > self.term:
            self._enter(term)
        assert term == self.term
        assert self.voted_for in (None, candidate)
        self.voted_for = candidate
        self.check_invariants()

    def become_leader(self) -> Elected:
        """Lead the current term. The next entry appended must be its barrier."""
        assert self.role is Role.CANDIDATE
        assert self.voted_for == self.node_id
        self._require_durable_term()
        last = self._log.dirty_index
        self.role = Role.LEADER
        self.leader_id = self.node_id
        self.barrier_index = Index(last + 1)
        # No leader_ack entry of an older term becomes visible before the barrier is committed.
        self._asked = deque([(Index(self.visible_index + 1), self.barrier_index)])
        assert not self.followers
        self.clean_indexes = CleanIndexes()
        self._know_followers()
        self.check_invariants()
        return Elected()

    def fail(self) -> None:
        """End this replica: it leads and votes no more. Asserts nothing: a failed assertion may be why it ends."""
        self._become_follower()
        self.role = Role.FAILED
        self.leader_id = None

    def _become_follower(self) -> None:
        if self.role is not Role.FAILED:
            self.role = Role.FOLLOWER
        self.leader_id = None
        self.matched_index = Index(0)
        self.followers = {}
        self._asked.clear()
        self.unreplicated.clear()

    # -- levels -------------------------------------------------------------------------------------------------

    def set_levels(self, policy: AgreementPolicy, *, write_caching: bool) -> Moved | Progressed | None:
        """Change what answers and visibility wait for, from now on; commit is not touched.

        A write that already has its index keeps the kind of answer that was decided then: fsynced or written.
        """
        assert policy.commit_quorums(self.configuration) == self.commit_quorums
        self._policy = policy
        self._count_members()
        self.write_caching = write_caching
        if self.role is Role.LEADER:
            return self.advance()
        # While answers needed more copies than a majority, commit may have passed visible. A follower closes the gap.
        return self._move(self.commit_index, max(self.visible_index, self.commit_index))

    # -- the leader's positions ---------------------------------------------------------------------------------

    def ask_flush(self, first: Index, last: Index) -> None:
        """A round is about to be written whose entries [first, last] must be committed before they are answered.

        Called before the append: once an entry is in the log, recovery may send it and a reply may count it. Without
        this range it could become visible before it is committed, as a leader_ack entry may.
        """
        assert self.role is Role.LEADER
        assert self._log.dirty_index < first <= last
        self._asked.append((first, last))

    def withdraw_flush(self, first: Index) -> None:
        """The round that began with `first` was not written after all."""
        if self._asked and self._asked[-1][0] == first:
            self._asked.pop()

    def advance(self) -> Moved | Progressed | None:
        """Leader: move commit and visible as far as the known positions allow; None: this replica does not lead."""
        if self.role is not Role.LEADER:
            return None
        if self.commit_index == self.visible_index == self._log.dirty_index and not self.unreplicated.total:
            # Most replies to heartbeats come while no position can move.
            return PROGRESSED
        log = self._log
        dirty, flushed = {self.node_id: log.dirty_index}, {self.node_id: log.flushed_index}
        for node, follower in self.followers.items():
            dirty[node], flushed[node] = follower.position
        if self.unreplicated.total:
            self.unreplicated.release(agreement.point(self.commit_quorums, dirty.__getitem__))
        commit = agreement.commit_point(
            self.commit_quorums, flushed.__getitem__, log.flushed_index, self.term, log.term_at, self.commit_index
        )
        while self._asked and self._asked[0][1] <= commit:
            self._asked.popleft()
        first_unanswered = self._asked[0][0] if self._asked else None
        visible = agreement.visible_point(
            self.answer_quorums,
            dirty.__getitem__,
            flushed.__getitem__,
            commit,
            self.barrier_index,
            first_unanswered,
        )
        return self._move(commit, max(visible, self.visible_index)) or PROGRESSED

    def answer_index(self) -> Index:
        """Leader: last index up to which acks=all may be answered."""
        return agreement.answer_point(
            self.answer_quorums, lambda node: self.position_of(node).flushed, self.commit_index
        )

    def written_answer_index(self) -> Index:
        """Leader: last index up to which acks=all may be answered without an fsync (`write.caching`)."""
        return agreement.written_answer_point(
            self.answer_quorums, lambda node: self.position_of(node).dirty, self.visible_index
        )

    # -- the follower's positions -------------------------------------------------------------------------------

    def on_matched(self, index: Index) -> None:
        """Follower: everything up to `index` equals the log of this term's leader."""
        assert self.role is Role.FOLLOWER
        self._require_durable_term()
        self.matched_index = max(self.matched_index, index)
        self.check_invariants()

    def on_leader_progress(self, commit: Index, visible: Index) -> Moved | None:
        """Follower: take the leader's commit and visible, never past what was matched (counterexample 5)."""
        assert self.role is Role.FOLLOWER
        self._require_durable_term()
        new_commit = max(self.commit_index, min(commit, self.matched_index, self._log.flushed_index))
        new_visible = max(self.visible_index, min(visible, self.matched_index), new_commit)
        return self._move(new_commit, new_visible)

    def on_truncating(self, first_removed: Index) -> None:
        """Follower: the log is about to lose `first_removed` and all behind it; clamp every index.

        Raises:
            InvariantViolatedError: That would remove committed entries.
        """
        if self.role is Role.LEADER or first_removed <= self.commit_index:
            raise InvariantViolatedError(f"truncation at {first_removed}, commit is {self.commit_index}")
        self._require_durable_term()
        last_kept = Index(first_removed - 1)
        self.matched_index = min(self.matched_index, last_kept)
        # Visible entries are truncated only if a replica lost un-fsynced copies in a power loss (RFC 0003, levels).
        # The higher leader epoch tells consumers.
        self.visible_index = min(self.visible_index, last_kept)
        self.check_invariants()

    def on_installing(self, start_index: Index, *, is_log_kept: bool) -> None:
        """Follower: the log is about to begin at `start_index`, above commit.

        Args:
            start_index: First index of the snapshot's log.
            is_log_kept: Whether the log holds the entry before the start, so that the entries behind it stay.

        Raises:
            InvariantViolatedError: That would remove committed entries, or this replica leads.
        """
        last_kept = Index(start_index - 1)
        if self.role is Role.LEADER or last_kept <= self.commit_index:
            raise InvariantViolatedError(f"a snapshot up to {last_kept}, commit is {self.commit_index}")
        # The removed entries may be of later terms than the kept ones. The replica must not fall back to an older term.
        self._require_durable_term()
        if not is_log_kept:
            # All entries go. Later appends show again how far the log equals the leader's.
            self.matched_index = min(self.matched_index, last_kept)
            self.visible_index = min(self.visible_index, last_kept)
        self.check_invariants()

    def on_installed(self) -> Moved | None:
        """Follower: the log now begins at the snapshot's start, and everything before it is committed."""
        before = Index(self._log.start_index - 1)
        return self._move(max(self.commit_index, before), max(self.visible_index, before))

    def _move(self, commit: Index, visible: Index) -> Moved | None:
        if commit == self.commit_index and visible == self.visible_index:
            return None
        assert commit >= self.commit_index
        self.commit_index = commit
        self.visible_index = visible
        self.check_invariants()
        return Moved(commit, visible)

    def check_invariants(self) -> None:
        """Assert S2, and that a leader or candidate has its own vote; cheap enough for production."""
        log = self._log
        assert self.commit_index <= log.flushed_index <= log.dirty_index <= log.pending_index
        assert self.visible_index <= log.dirty_index
        assert self.matched_index <= log.dirty_index
        # If an answer needs more copies than a majority, an entry may be committed before it is visible.
        assert self.commit_index <= self.visible_index or self.answer_quorums != self.commit_quorums
        if self.role in (Role.LEADER, Role.CANDIDATE):
            assert self.voted_for == self.node_id
            assert (self.leader_id == self.node_id) == (self.role is Role.LEADER)


def voters_of(quorums: Sequence[Quorum]) -> tuple[NodeId, ...]:
    """Return all members of the quorums, in ascending order."""
    return tuple(sorted({member for quorum in quorums for member in quorum.members}))
