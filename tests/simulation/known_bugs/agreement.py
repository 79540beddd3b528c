"""Bugs in what a leader counts: commit, visibility, and the answers to producers (Raft paper 5.3 and 5.4.2)."""

import pytest

import raft.append_dispatch
import raft.append_entries_buffer
import raft.consensus
import raft.group_heartbeats
import raft.replicate_entries_stm
from model.ids import ConsistencyLevel, Index
from model.record_batch import stamp
from raft.append_dispatch import append_request
from raft.effects import Moved
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.group_configuration import GroupConfiguration, RaftPolicy
from raft.linearizable_barrier import LinearizableBarrier
from raft.messages import AppendEntriesReply
from raft.replica_state import ReplicaState, Role
from raft.replicate_batcher import ReplicateBatcher
from raft.replication_monitor import ReplicationMonitor
from raft.rules import agreement
from raft.rules.agreement import CopyPosition, Quorum
from storage.entry import Entry, EntryKind


def written_counts_as_fsynced(patch: pytest.MonkeyPatch) -> None:
    """A leader counts what its followers have written where it should count what they have fsynced."""

    def position(follower: FollowerIndexMetadata) -> CopyPosition:
        written = min(follower.dirty_index, follower.match_index)
        return CopyPosition(written, written)

    patch.setattr(FollowerIndexMetadata, "position", property(position))


def followers_are_not_asked_to_flush(patch: pytest.MonkeyPatch) -> None:
    """A leader asks no follower to flush, and counts what they have written as flushed."""
    whole_request = append_request

    def request(context, prev_index, prev_term, *, flush: bool):
        return whole_request(context, prev_index, prev_term, flush=False)

    written_counts_as_fsynced(patch)
    patch.setattr(raft.replicate_entries_stm, "append_request", request)


def follower_reports_before_its_fsync(patch: pytest.MonkeyPatch) -> None:
    """A follower says that it has fsynced what it has only written."""

    def reply(context, status, match) -> AppendEntriesReply:
        state = context.state
        written = min(context.log.dirty_index, state.matched_index)
        return AppendEntriesReply(state.term, status, match, written, written)

    patch.setattr(raft.append_entries_buffer, "follower_reply", reply)
    patch.setattr(raft.consensus, "follower_reply", reply)


def foreign_tail_counts(patch: pytest.MonkeyPatch) -> None:
    """A follower reports, and its leader counts, the whole log: also what was never matched."""

    def reply(context, status, match) -> AppendEntriesReply:
        log = context.log
        return AppendEntriesReply(context.state.term, status, match, log.dirty_index, log.flushed_index)

    def position(follower: FollowerIndexMetadata) -> CopyPosition:
        return CopyPosition(follower.dirty_index, follower.flushed_index)

    patch.setattr(raft.append_entries_buffer, "follower_reply", reply)
    patch.setattr(raft.consensus, "follower_reply", reply)
    patch.setattr(FollowerIndexMetadata, "position", property(position))


def minority_commits(patch: pytest.MonkeyPatch) -> None:
    """A leader commits with one replica less than a majority."""
    of_majority = agreement.commit_point

    def commit_point(quorums, *arguments) -> Index:
        return of_majority([Quorum(members, k - 1) for members, k in quorums], *arguments)

    patch.setattr(agreement, "commit_point", commit_point)


def commit_needs_everybody(patch: pytest.MonkeyPatch) -> None:
    """A leader commits what all replicas have flushed: one slow follower holds up commit."""
    of_majority = agreement.commit_point

    def commit_point(quorums, *arguments) -> Index:
        return of_majority([quorum._replace(k=len(quorum.members)) for quorum in quorums], *arguments)

    patch.setattr(agreement, "commit_point", commit_point)


def old_terms_commit_by_counting(patch: pytest.MonkeyPatch) -> None:
    """A leader commits entries of older terms by counting copies."""

    def commit_point(quorums, flushed, own_flushed, term, term_at, commit) -> Index:
        return max(commit, min(agreement.point(quorums, flushed), own_flushed))

    patch.setattr(agreement, "commit_point", commit_point)


def visible_is_what_the_leader_wrote(patch: pytest.MonkeyPatch) -> None:
    """Consumers may read what only one replica has written."""

    def visible_point(quorums, dirty, flushed, commit, barrier, first_unanswered) -> Index:
        return max(dirty(member) for quorum in quorums for member in quorum.members)

    patch.setattr(agreement, "visible_point", visible_point)


def leaders_after_the_first_show_what_they_alone_wrote(patch: pytest.MonkeyPatch) -> None:
    """Consumers may read what only one replica has written, once a group has had other leaders and losses of power."""
    whole = agreement.visible_point

    def visible_point(quorums, dirty, flushed, commit, barrier, first_unanswered) -> Index:
        if barrier <= 20:
            return whole(quorums, dirty, flushed, commit, barrier, first_unanswered)
        return max(dirty(member) for quorum in quorums for member in quorum.members)

    patch.setattr(agreement, "visible_point", visible_point)


def leader_hides_again_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A leader's visible point falls back to its commit index now and then."""
    move = ReplicaState._move

    def move_back(state: ReplicaState, commit: Index, visible: Index) -> Moved | None:
        if state.role is Role.LEADER and commit % 5 == 0 and commit < min(state.visible_index, visible):
            visible = commit
        return move(state, commit, visible)

    patch.setattr(ReplicaState, "_move", move_back)


def visible_is_commit(patch: pytest.MonkeyPatch) -> None:
    """Consumers see only what is committed."""

    def visible_point(quorums, dirty, flushed, commit, barrier, first_unanswered) -> Index:
        return commit

    patch.setattr(agreement, "visible_point", visible_point)


def relaxed_writes_show_the_quorum_writes_before_them(patch: pytest.MonkeyPatch) -> None:
    """What is written on a majority is shown even where it holds a write that waits for its fsyncs."""
    whole = agreement.visible_point

    def visible_point(quorums, dirty, flushed, commit, barrier, first_unanswered) -> Index:
        return whole(quorums, dirty, flushed, commit, barrier, None)

    patch.setattr(agreement, "visible_point", visible_point)


def quorum_write_is_answered_at_once(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered as soon as the leader has written."""

    def resolve(batcher: ReplicateBatcher, items) -> None:
        for item in items:
            item.succeed()
        batcher._monitor.on_moved()

    patch.setattr(ReplicateBatcher, "_resolve", resolve)


def every_item_is_quorum(patch: pytest.MonkeyPatch) -> None:
    """An item at acks=1 waits as long as the strongest level of its round."""

    def resolve(batcher: ReplicateBatcher, items) -> None:
        if any(item.level is ConsistencyLevel.QUORUM_ACK for item in items) or batcher._context.state.followers:
            for item in items:
                batcher._monitor.add(item)
        batcher._monitor.on_moved()

    patch.setattr(ReplicateBatcher, "_resolve", resolve)


def leader_ack_precedes_the_write(patch: pytest.MonkeyPatch) -> None:
    """acks=1 is answered once the entries have their place, not once they are written."""
    whole_place = ReplicateBatcher._place

    def place(batcher: ReplicateBatcher, items, term):
        placed = whole_place(batcher, items, term)
        for item in items:
            if item.level is ConsistencyLevel.LEADER_ACK:
                item.succeed()
        return placed

    patch.setattr(ReplicateBatcher, "_place", place)


def a_lost_leadership_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """Whoever waits when a leadership ends is told that the write has succeeded."""

    def fail_all(monitor: ReplicationMonitor, error) -> None:
        items, monitor._items = sorted(monitor._items), []
        for _, _, item in items:
            item.succeed()
        monitor.notify()

    patch.setattr(ReplicationMonitor, "fail_all", fail_all)


def last_batch_of_a_round_is_written_twice(patch: pytest.MonkeyPatch) -> None:
    """A round ends with its last entry once more, at the next index and offset."""
    whole_place = ReplicateBatcher._place

    def place(batcher: ReplicateBatcher, items, term):
        placed = whole_place(batcher, items, term)
        if placed.entries and placed.entries[-1].kind is EntryKind.DATA:
            last = placed.entries[-1]
            payload = bytearray(last.payload)
            stamp(payload, last.end_offset, term)
            again = Entry(Index(last.index + 1), term, last.kind, last.end_offset, last.record_count, payload)
            batcher._context.log_state.note(again)
            placed.entries.append(again)
        return placed

    patch.setattr(ReplicateBatcher, "_place", place)


def answers_of_older_leaderships_count(patch: pytest.MonkeyPatch) -> None:
    """A leader takes the answer to a request that it sent in an earlier term of its own."""
    apply_reply = raft.append_dispatch.apply_reply

    def take(context, follower, term, number, reply, *, is_append=True) -> None:
        state = context.state
        current = state.followers.get(follower.node_id)
        if current is not None and state.is_leader and state.term > term:
            reply = AppendEntriesReply(state.term, reply.status, reply.match, reply.dirty, reply.flushed)
            follower, term = current, state.term
        apply_reply(context, follower, term, number, reply, is_append=is_append)

    patch.setattr(raft.append_dispatch, "apply_reply", take)
    patch.setattr(raft.group_heartbeats, "apply_reply", take)


def leader_serves_before_its_barrier(patch: pytest.MonkeyPatch) -> None:
    """A new leader serves before an entry of its own term is committed: it does not know yet what is."""
    patch.setattr(ReplicaState, "is_in_office", property(lambda state: state.is_leader))


def reads_are_not_confirmed(patch: pytest.MonkeyPatch) -> None:
    """A leader answers linearizable reads without asking whether it still leads."""

    async def wait(barrier: LinearizableBarrier, arrived) -> None:
        if arrived.done():
            arrived.result()

    patch.setattr(LinearizableBarrier, "wait", wait)


def bytes_of_failed_writes_are_not_given_back(patch: pytest.MonkeyPatch) -> None:
    """What a write takes of its batcher's memory is given back only if it has not failed."""
    release = ReplicateBatcher._release

    def release_what_succeeded(batcher: ReplicateBatcher, items) -> None:
        release(batcher, [item for item in items if item.result is not None])

    patch.setattr(ReplicateBatcher, "_release", release_what_succeeded)


def two_replicas_are_always_a_majority(patch: pytest.MonkeyPatch) -> None:
    """A leader commits, and is elected, by two voters, as in a group of three, however many its group has."""

    def commit_quorums(policy: RaftPolicy, configuration: GroupConfiguration) -> tuple[Quorum, ...]:
        return tuple(
            Quorum(tuple(voter.node_id for voter in voters), min(2, len(voters))) for voters in configuration.voter_sets
        )

    patch.setattr(RaftPolicy, "commit_quorums", commit_quorums)
