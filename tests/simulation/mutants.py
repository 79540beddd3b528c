"""Bugs to plant: each function breaks one rule of the product, in memory, until its `patch` is undone.

`test_invariants_can_fail` runs the simulator with them and asks which invariant objects.
"""

import msgspec
import pytest

import raft.append_entries_buffer
import raft.vote_stm
import raft.voter
import storage.log_flusher
from cluster.partition import Partition
from model.ids import ConsistencyLevel, Index, NodeId
from model.record_batch import stamp
from raft.append_entries_buffer import AppendEntriesBuffer
from raft.consensus import Consensus
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.log_start_stm import LogStartStm
from raft.messages import AppendEntriesReply, VoteReply, VoteRequest
from raft.replica_state import ReplicaState, Role
from raft.replicate_batcher import ReplicateBatcher
from raft.rules import agreement
from raft.rules.agreement import CopyPosition, Quorum
from raft.rules.append import AppendPlan, Reject, plan_append
from raft.rules.election import LogEnd, refuse_reason
from raft.vote_store import PersistedVote, VoteStore, vote_key
from raft.voter import Voter
from storage.entry import Entry, EntryKind
from storage.log_recovery import LogRecovery
from storage.snapshot_file import Snapshot

_LONGEST_LOG = LogEnd(1 << 60, 1 << 60)


# -- elections ------------------------------------------------------------------------------------------------------


def vote_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A vote is told before it is durable (paper 5.2)."""

    async def persist(votes: VoteStore) -> bool:
        context = votes._context
        vote = PersistedVote(context.state.term, context.state.voted_for)
        context.kvstore.put(vote_key(context.group), msgspec.msgpack.encode(vote))
        return True

    patch.setattr(VoteStore, "persist", persist)


def votes_go_to_any_log(patch: pytest.MonkeyPatch) -> None:
    """A voter does not compare the candidate's log with its own (paper 5.4.1)."""

    def refuse(voter, candidate, term, log_end, **asked):
        return refuse_reason(voter, candidate, term, _LONGEST_LOG, **asked)

    patch.setattr(raft.voter, "refuse_reason", refuse)


def one_vote_elects(patch: pytest.MonkeyPatch) -> None:
    """A candidate does not wait for a majority of votes (paper 5.2)."""
    patch.setattr(raft.vote_stm, "has_majority", lambda quorums, granted: True)


def follower_forgets_its_vote(patch: pytest.MonkeyPatch) -> None:
    """A follower gives its vote of a term to whoever asks next (paper 5.2)."""
    whole_answer = Voter.answer

    async def answer(voter: Voter, candidate: NodeId, request: VoteRequest) -> VoteReply:
        state = voter._context.state
        if state.role is Role.FOLLOWER:
            state.voted_for = None
        return await whole_answer(voter, candidate, request)

    patch.setattr(Voter, "answer", answer)


def vote_rule_ignores_the_vote(patch: pytest.MonkeyPatch) -> None:
    """The decision about a vote does not look at the vote already given (paper 5.2)."""

    def refuse(voter, candidate, term, log_end, **asked):
        return refuse_reason(voter._replace(voted_for=None), candidate, term, log_end, **asked)

    patch.setattr(raft.voter, "refuse_reason", refuse)


def new_leader_cuts_its_tail(patch: pytest.MonkeyPatch) -> None:
    """A new leader begins with a log that holds only what it knows as committed (RFC 0003, S4)."""
    on_elected = Consensus._on_elected

    async def cut(consensus: Consensus) -> None:
        async with consensus._context.op_lock:
            if consensus.log.last_index > consensus.state.commit_index:
                await consensus.log.truncate(Index(consensus.state.commit_index + 1))

    def elected(consensus: Consensus) -> None:
        consensus._gate.spawn(cut(consensus), name="cut")
        on_elected(consensus)

    patch.setattr(Consensus, "_on_elected", elected)


# -- agreement ------------------------------------------------------------------------------------------------------


def written_counts_as_fsynced(patch: pytest.MonkeyPatch) -> None:
    """A leader counts what its followers have written where it should count what they have fsynced (RFC 0003)."""

    def position(follower: FollowerIndexMetadata) -> CopyPosition:
        written = min(follower.dirty_index, follower.match_index)
        return CopyPosition(written, written)

    patch.setattr(FollowerIndexMetadata, "position", property(position))


def foreign_tail_counts(patch: pytest.MonkeyPatch) -> None:
    """A follower reports, and its leader counts, the whole log: also what was never matched (redpanda F1)."""

    def reply(context, status, match) -> AppendEntriesReply:
        log = context.log
        return AppendEntriesReply(context.state.term, status, match, log.last_index, log.flushed_index)

    def position(follower: FollowerIndexMetadata) -> CopyPosition:
        return CopyPosition(follower.dirty_index, follower.flushed_index)

    patch.setattr(raft.append_entries_buffer, "follower_reply", reply)
    patch.setattr(raft.consensus, "follower_reply", reply)
    patch.setattr(FollowerIndexMetadata, "position", property(position))


def minority_commits(patch: pytest.MonkeyPatch) -> None:
    """A leader commits with one replica less than a majority (paper 5.3)."""
    of_majority = agreement.commit_point

    def commit_point(quorums, *arguments) -> Index:
        return of_majority([Quorum(members, k - 1) for members, k in quorums], *arguments)

    patch.setattr(agreement, "commit_point", commit_point)


def old_terms_commit_by_counting(patch: pytest.MonkeyPatch) -> None:
    """A leader commits entries of older terms by counting copies (paper 5.4.2, figure 8)."""

    def commit_point(quorums, position, own_flushed, term, term_at, commit) -> Index:
        counted = agreement.point(quorums, lambda node: position(node).flushed)
        return max(commit, min(counted, own_flushed))

    patch.setattr(agreement, "commit_point", commit_point)


def visible_is_what_the_leader_wrote(patch: pytest.MonkeyPatch) -> None:
    """Consumers may read what only one replica has written (design.md 6)."""

    def visible_point(quorums, position, commit, barrier, first_unanswered) -> Index:
        return max(position(member).written for quorum in quorums for member in quorum.members)

    patch.setattr(agreement, "visible_point", visible_point)


def quorum_write_is_answered_at_once(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered as soon as the leader has written (design.md 6)."""

    def resolve(batcher: ReplicateBatcher, items) -> None:
        for item in items:
            item.succeed()
        batcher._monitor.on_moved()

    patch.setattr(ReplicateBatcher, "_resolve", resolve)


def leader_ack_precedes_the_write(patch: pytest.MonkeyPatch) -> None:
    """acks=1 is answered once the entries have their place, not once they are written (design.md 6)."""
    whole_place = ReplicateBatcher._place

    def place(batcher: ReplicateBatcher, items, term):
        placed = whole_place(batcher, items, term)
        for item in items:
            if item.level is ConsistencyLevel.LEADER_ACK:
                item.succeed()
        return placed

    patch.setattr(ReplicateBatcher, "_place", place)


def last_batch_of_a_round_is_written_twice(patch: pytest.MonkeyPatch) -> None:
    """A round ends with its last entry once more, at the next index and offset."""
    whole_place = ReplicateBatcher._place

    def place(batcher: ReplicateBatcher, items, term):
        placed = whole_place(batcher, items, term)
        last = placed.entries[-1]
        if last.kind is EntryKind.DATA:
            payload = bytearray(last.payload)
            stamp(payload, last.end_offset, term)
            again = Entry(Index(last.index + 1), term, last.kind, last.end_offset, last.record_count, payload)
            batcher._context.log_state.note(again)
            placed.entries.append(again)
        return placed

    patch.setattr(ReplicateBatcher, "_place", place)


def fetch_is_not_bounded(patch: pytest.MonkeyPatch) -> None:
    """A fetch returns whatever the leader's log holds (design.md 6)."""

    async def fetch(partition: Partition, offset, max_bytes):
        log = partition._log
        first = await log.index_of_offset(offset)
        while first <= log.last_index:
            entries = await log.read(first, max_bytes)
            batches = [entry.payload for entry in entries if entry.kind is EntryKind.DATA]
            if batches or not entries:
                return batches
            first = Index(entries[-1].index + 1)
        return []

    patch.setattr(Partition, "fetch", fetch)


# -- the follower ---------------------------------------------------------------------------------------------------


def follower_commits_what_was_not_matched(patch: pytest.MonkeyPatch) -> None:
    """A follower takes the leader's commit index for its own log, matched or not (counterexample 5)."""

    def on_leader_progress(state: ReplicaState, commit: Index, visible: Index) -> None:
        new_commit = max(state.commit_index, min(commit, state._log.flushed_index))
        state._move(new_commit, max(state.visible_index, min(visible, state._log.last_index), new_commit))

    patch.setattr(ReplicaState, "on_leader_progress", on_leader_progress)


def follower_commits_before_its_fsync(patch: pytest.MonkeyPatch) -> None:
    """A follower's commit index passes what it has fsynced (RFC 0003, S2)."""

    def on_leader_progress(state: ReplicaState, commit: Index, visible: Index) -> None:
        new_commit = max(state.commit_index, min(commit, state.matched_index))
        state._move(new_commit, max(state.visible_index, min(visible, state.matched_index), new_commit))

    patch.setattr(ReplicaState, "on_leader_progress", on_leader_progress)


def previous_term_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A follower takes entries wherever its log is long enough (paper figure 2, AppendEntries step 2)."""

    def plan(log, prev_index, prev_term, entries) -> AppendPlan | Reject:
        if prev_index <= log.last:
            prev_term = log.term_at(prev_index)
        return plan_append(log, prev_index, prev_term, entries)

    patch.setattr(raft.append_entries_buffer, "plan_append", plan)


def conflict_is_kept(patch: pytest.MonkeyPatch) -> None:
    """A follower takes an entry of another term for the one it was sent (paper figure 2, AppendEntries step 3)."""

    def plan(log, prev_index, prev_term, entries) -> AppendPlan | Reject:
        decision = plan_append(log, prev_index, prev_term, entries)
        if isinstance(decision, AppendPlan) and decision.truncate_at is not None:
            return AppendPlan(min(len(entries), log.last - prev_index), None)
        return decision

    patch.setattr(raft.append_entries_buffer, "plan_append", plan)


def every_request_cuts(patch: pytest.MonkeyPatch) -> None:
    """A follower cuts whatever stands behind `prev_index`, also entries that agree (paper 5.3)."""

    def plan(log, prev_index, prev_term, entries) -> AppendPlan | Reject:
        decision = plan_append(log, prev_index, prev_term, entries)
        if isinstance(decision, AppendPlan) and prev_index < log.last:
            return AppendPlan(0, Index(prev_index + 1))
        return decision

    patch.setattr(raft.append_entries_buffer, "plan_append", plan)


def cut_goes_below_commit(patch: pytest.MonkeyPatch) -> None:
    """A follower that has to cut removes one entry more, committed or not, without looking at commit (S5)."""

    async def write(buffer: AppendEntriesBuffer, decision: AppendPlan, entries) -> None:
        log = buffer._context.log
        if decision.truncate_at is not None:
            first_removed = Index(max(1, decision.truncate_at - 1))
            buffer._context.log_state.truncate(first_removed)
            await log.truncate(first_removed)
            return
        if decision.skip < len(entries):
            await buffer._append_new(entries[decision.skip :])

    patch.setattr(AppendEntriesBuffer, "_write", write)


# -- storage --------------------------------------------------------------------------------------------------------


def fsync_is_skipped(patch: pytest.MonkeyPatch) -> None:
    """A flush reports success without an fsync (RFC 0002)."""
    patch.setattr(storage.log_flusher, "_fsync_all", lambda segments: None)


def tail_is_trusted_after_a_kill(patch: pytest.MonkeyPatch) -> None:
    """What a killed process left in the page cache is taken for durable (RFC 0002)."""
    patch.setattr(LogRecovery, "_rewrite_tail", lambda recovery, kept, mark: None)


def offsets_count_batches(patch: pytest.MonkeyPatch) -> None:
    """A batch takes one offset, however many records it holds (design.md 1)."""
    patch.setattr(Entry, "end_offset", property(lambda entry: entry.base_offset + (entry.record_count > 0)))


# -- log start and snapshots ----------------------------------------------------------------------------------------


def each_replica_deletes_by_itself(patch: pytest.MonkeyPatch) -> None:
    """DeleteRecords and retention move the start of the leader only, without an entry (counterexample 15)."""

    async def move_log_start(consensus: Consensus, start, term, deadline) -> None:
        consensus.log.advance_start(start)

    patch.setattr(Consensus, "move_log_start", move_log_start)


def snapshot_is_later_than_its_state(patch: pytest.MonkeyPatch) -> None:
    """A snapshot names the newest entry, but its state is as of a committed one (counterexample 36)."""
    true_take = LogStartStm.take

    async def take(stm: LogStartStm) -> Snapshot:
        index = stm._log.last_index
        snapshot = await true_take(stm)
        return Snapshot(snapshot.start, index, stm._log.term_at(index), snapshot.state)

    patch.setattr(LogStartStm, "take", take)
