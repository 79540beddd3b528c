"""Bugs of followers, and of what a leader sends them (Raft paper, figure 2 and section 5.3)."""

import pytest

import raft.append_entries_buffer
import raft.recovery_stm
from model.ids import Index
from raft.append_entries_buffer import AppendEntriesBuffer
from raft.effects import Moved
from raft.recovery_stm import RecoveryStm
from raft.replica_state import ReplicaState, Role
from raft.replicate_batcher import ReplicateBatcher
from raft.rules.append import AppendPlan, Reject, plan_append
from storage.entry import Entry


def follower_commits_what_was_not_matched(patch: pytest.MonkeyPatch) -> None:
    """A follower takes the leader's commit index for its own log, matched or not."""

    def on_leader_progress(state: ReplicaState, commit: Index, visible: Index) -> Moved | None:
        new_commit = max(state.commit_index, min(commit, state._log.flushed_index))
        return state._move(new_commit, max(state.visible_index, min(visible, state._log.dirty_index), new_commit))

    patch.setattr(ReplicaState, "on_leader_progress", on_leader_progress)


def follower_commits_before_its_fsync(patch: pytest.MonkeyPatch) -> None:
    """A follower's commit index passes what it has fsynced."""

    def on_leader_progress(state: ReplicaState, commit: Index, visible: Index) -> Moved | None:
        new_commit = max(state.commit_index, min(commit, state.matched_index))
        return state._move(new_commit, max(state.visible_index, min(visible, state.matched_index), new_commit))

    patch.setattr(ReplicaState, "on_leader_progress", on_leader_progress)
    # The product asserts the same, in the same step.
    patch.setattr(ReplicaState, "check_invariants", lambda state: None)


def match_outlives_its_leader(patch: pytest.MonkeyPatch) -> None:
    """A follower takes what it had matched with an older leader for matched with the new one."""

    def become_follower(state: ReplicaState) -> None:
        if state.role is not Role.FAILED:
            state.role = Role.FOLLOWER
        state.leader_id = None
        state.followers = {}
        state._asked.clear()
        state.unreplicated.clear()

    patch.setattr(ReplicaState, "_become_follower", become_follower)


def previous_term_is_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A follower takes entries wherever its log is long enough."""

    def plan(log, prev_index, prev_term, entries) -> AppendPlan | Reject:
        if log.start - 1 <= prev_index <= log.last:
            prev_term = log.term_at(prev_index)
        return plan_append(log, prev_index, prev_term, entries)

    patch.setattr(raft.append_entries_buffer, "plan_append", plan)


def conflict_is_kept(patch: pytest.MonkeyPatch) -> None:
    """A follower takes an entry of another term for the one it was sent."""

    def plan(log, prev_index, prev_term, entries) -> AppendPlan | Reject:
        decision = plan_append(log, prev_index, prev_term, entries)
        if isinstance(decision, AppendPlan) and decision.truncate_at is not None:
            return AppendPlan(min(len(entries), log.last - prev_index), None)
        return decision

    patch.setattr(raft.append_entries_buffer, "plan_append", plan)


def every_request_cuts(patch: pytest.MonkeyPatch) -> None:
    """A follower cuts whatever stands behind `prev_index`, also entries that agree."""

    def plan(log, prev_index, prev_term, entries) -> AppendPlan | Reject:
        decision = plan_append(log, prev_index, prev_term, entries)
        if isinstance(decision, AppendPlan) and log.start - 1 <= prev_index < log.last:
            return AppendPlan(0, Index(prev_index + 1))
        return decision

    patch.setattr(raft.append_entries_buffer, "plan_append", plan)


def cut_goes_below_commit(patch: pytest.MonkeyPatch) -> None:
    """A follower that has to cut removes one entry more, committed or not, without looking at commit."""

    async def write(buffer: AppendEntriesBuffer, decision: AppendPlan, entries) -> None:
        log = buffer._context.log
        if decision.truncate_at is not None:
            first_removed = Index(max(log.start_index, decision.truncate_at - 1))
            buffer._context.log_state.truncate(first_removed)
            await log.truncate(first_removed)
            return
        if decision.skip < len(entries):
            await buffer._append_new(entries[decision.skip :])

    patch.setattr(AppendEntriesBuffer, "_write", write)


def offsets_count_batches(patch: pytest.MonkeyPatch) -> None:
    """A batch takes one offset, however many records it holds."""
    patch.setattr(Entry, "end_offset", property(lambda entry: entry.base_offset + (entry.record_count > 0)))


def followers_that_lack_little_are_left_alone(patch: pytest.MonkeyPatch) -> None:
    """A leader does not recover a follower that lacks three entries or fewer, and waits for more."""
    goes_on = RecoveryStm._goes_on

    def goes_on_if_worth_it(recovery: RecoveryStm) -> bool:
        lacking = recovery._context.log.dirty_index - recovery._follower.match_index
        return not 0 < lacking <= 3 and goes_on(recovery)

    patch.setattr(RecoveryStm, "_goes_on", goes_on_if_worth_it)


def hand_over_forgets_the_backlog(patch: pytest.MonkeyPatch) -> None:
    """Recovery hands a follower over without what is left: rounds go on behind a gap that nobody fills."""
    patch.setattr(raft.recovery_stm, "send_backlog", lambda context, follower, *, owes_flush: 0)


def producers_are_never_held(patch: pytest.MonkeyPatch) -> None:
    """A leader takes what producers send, however far it is ahead of its majority."""
    patch.setattr(ReplicateBatcher, "_is_held", lambda batcher: False)


def full_windows_hold_producers(patch: pytest.MonkeyPatch) -> None:
    """A leader counts requests, not bytes: producers wait while the windows of a majority of followers are full."""

    def is_held(batcher: ReplicateBatcher) -> bool:
        followers, window = batcher._context.state.followers.values(), batcher._context.options.follower_window
        return sum(each.in_flight >= window for each in followers) > len(followers) // 2

    patch.setattr(ReplicateBatcher, "_is_held", is_held)
