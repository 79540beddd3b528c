"""Mutants: each switches one mechanism of the seed RFC off, in memory, until its `patch` is undone."""

import asyncio

import pytest

import raft.leadership_transfer
import raft.replicate_entries_stm
from model.ids import ConsistencyLevel, Index
from raft.append_dispatch import append_request, send_append, wire_buffers
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.leadership_transfer import LeadershipTransfer
from raft.recovery_stm import RecoveryStm
from raft.replicate_batcher import ReplicateBatcher
from raft.replicate_entries_stm import ReplicateEntriesStm
from raft.rules import agreement
from raft.rules.agreement import CopyPosition
from runtime.workers import Pool

# -- levels ---------------------------------------------------------------------------------------------------------


def every_item_is_quorum(patch: pytest.MonkeyPatch) -> None:
    """P1, P3, P21: a relaxed item waits for its round's strongest level."""

    def resolve(batcher: ReplicateBatcher, items) -> None:
        if any(item.level is ConsistencyLevel.QUORUM_ACK for item in items) or batcher._context.state.followers:
            for item in items:
                batcher._monitor.add(item)
        batcher._monitor.on_moved()

    patch.setattr(ReplicateBatcher, "_resolve", resolve)


def every_item_is_relaxed(patch: pytest.MonkeyPatch) -> None:
    """P1, P2, P21: a quorum item is answered with the leader's write."""

    def resolve(batcher: ReplicateBatcher, items) -> None:
        for item in items:
            item.succeed()
        batcher._monitor.on_moved()

    patch.setattr(ReplicateBatcher, "_resolve", resolve)


def written_counts_as_flushed(patch: pytest.MonkeyPatch) -> None:
    """P2, P4: followers reply before their fsync, and a written copy counts as a fsynced one."""
    whole_request = append_request

    def position(follower: FollowerIndexMetadata) -> CopyPosition:
        written = min(follower.dirty_index, follower.match_index)
        return CopyPosition(written, written)

    def request(context, prev_index, prev_term, *, flush: bool):
        return whole_request(context, prev_index, prev_term, flush=False)

    patch.setattr(FollowerIndexMetadata, "position", property(position))
    patch.setattr(raft.replicate_entries_stm, "append_request", request)


def commit_needs_everybody(patch: pytest.MonkeyPatch) -> None:
    """P2, P4: one slow follower holds up commit."""
    of_majority = agreement.commit_point

    def commit_point(quorums, *arguments) -> Index:
        return of_majority([quorum._replace(k=len(quorum.members)) for quorum in quorums], *arguments)

    patch.setattr(agreement, "commit_point", commit_point)


def leader_ack_precedes_the_write(patch: pytest.MonkeyPatch) -> None:
    """P3: a relaxed item is answered when it has its place."""
    whole_place = ReplicateBatcher._place

    def place(batcher: ReplicateBatcher, items, term):
        placed = whole_place(batcher, items, term)
        for item in items:
            if item.level is ConsistencyLevel.LEADER_ACK:
                item.succeed()
        return placed

    patch.setattr(ReplicateBatcher, "_place", place)


def visible_is_commit(patch: pytest.MonkeyPatch) -> None:
    """P5: consumers see only what is committed."""
    patch.setattr(agreement, "visible_point", lambda quorums, position, commit, barrier, first_unanswered: commit)


def visible_is_what_is_written(patch: pytest.MonkeyPatch) -> None:
    """P5: consumers see past a pending quorum write."""
    whole = agreement.visible_point

    def visible_point(quorums, position, commit, barrier, first_unanswered) -> Index:
        return whole(quorums, position, commit, barrier, None)

    patch.setattr(agreement, "visible_point", visible_point)


# -- one path -------------------------------------------------------------------------------------------------------


def relaxed_rounds_are_left_to_recovery(patch: pytest.MonkeyPatch) -> None:
    """P6, P16: the old design: only quorum rounds are sent, recovery carries the rest."""
    whole_dispatch = ReplicateEntriesStm._dispatch

    def dispatch(stm: ReplicateEntriesStm) -> None:
        if stm._asked is not None:
            whole_dispatch(stm)
            return
        for follower in stm._context.state.followers.values():
            follower.on_lost_contact()

    patch.setattr(ReplicateEntriesStm, "_dispatch", dispatch)


def dispatch_waits_for_the_flush(patch: pytest.MonkeyPatch) -> None:
    """P7: followers get a round after the leader's fsync."""
    whole_dispatch = ReplicateEntriesStm._dispatch

    def dispatch(stm: ReplicateEntriesStm) -> None:
        async def later() -> None:
            await stm._flusher.flush()
            if stm._still_leads():
                whole_dispatch(stm)

        stm._context.gate.spawn(later(), name="late-dispatch")

    patch.setattr(ReplicateEntriesStm, "_dispatch", dispatch)


def dispatch_precedes_the_write(patch: pytest.MonkeyPatch) -> None:
    """P7 (and P23, which is not built): followers may hold what the leader has not written."""
    whole_apply = ReplicateEntriesStm.apply

    async def apply(stm: ReplicateEntriesStm) -> None:
        context, entries = stm._context, stm._entries
        prev_index = Index(entries[0].index - 1)
        request = append_request(context, prev_index, context.log.term_at(prev_index), flush=stm._asked is not None)
        for follower in context.state.followers.values():
            if follower.expects(entries[0].index):
                # Past the book-keeping, which would stop it.
                context.client.append_entries(follower.node_id, request, wire_buffers(entries))
        await whole_apply(stm)

    patch.setattr(ReplicateEntriesStm, "apply", apply)


def the_window_is_wide(patch: pytest.MonkeyPatch) -> None:
    """P8: nothing bounds the requests in flight."""

    def takes(stm: ReplicateEntriesStm, follower: FollowerIndexMetadata) -> bool:
        return follower.expects(stm._entries[0].index)

    patch.setattr(ReplicateEntriesStm, "_may_send_to", takes)


def a_request_per_follower(patch: pytest.MonkeyPatch) -> None:
    """P11: the bytes on the wire are put together for each follower anew."""

    def dispatch(stm: ReplicateEntriesStm) -> None:
        context, entries = stm._context, stm._entries
        prev_index = Index(entries[0].index - 1)
        request = append_request(context, prev_index, context.log.term_at(prev_index), flush=stm._asked is not None)
        for follower in context.state.followers.values():
            if stm._may_send_to(follower):
                buffers = raft.replicate_entries_stm.wire_buffers(entries)
                send_append(context, follower, request, buffers, entries[-1].index)

    patch.setattr(ReplicateEntriesStm, "_dispatch", dispatch)


def rounds_are_read_back(patch: pytest.MonkeyPatch) -> None:
    """P11: the leader reads from its disk what it sends."""
    whole_apply = ReplicateEntriesStm.apply

    async def apply(stm: ReplicateEntriesStm) -> None:
        await whole_apply(stm)
        await stm._context.env.workers.run(Pool.READ, lambda: None)

    patch.setattr(ReplicateEntriesStm, "apply", apply)


# -- recovery -------------------------------------------------------------------------------------------------------


def recovery_waits_a_second(patch: pytest.MonkeyPatch) -> None:
    """P16: a follower that is behind stays behind for a while."""
    whole_run = RecoveryStm.run

    async def run(stm: RecoveryStm) -> None:
        await asyncio.sleep(1.0)
        await whole_run(stm)

    patch.setattr(RecoveryStm, "run", run)


def rounds_do_not_heed_recovery(patch: pytest.MonkeyPatch) -> None:
    """P18: rounds go to a follower while recovery sends to it, too."""

    def expects(follower: FollowerIndexMetadata, first_index: int) -> bool:
        return True

    patch.setattr(FollowerIndexMetadata, "expects", expects)


def recovery_does_not_wait_for_quiet(patch: pytest.MonkeyPatch) -> None:
    """P18: recovery begins with the first refusal, while the refusals of later rounds are still to come."""

    async def until_idle(stm: RecoveryStm) -> None:
        return

    patch.setattr(RecoveryStm, "_until_idle", until_idle)


def recovery_ends_with_an_answer_at_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """P16, P19: the old ending: one chunk after the other, until an answer finds that nothing was written meanwhile."""

    async def fill(stm: RecoveryStm) -> None:
        follower, log = stm._follower, stm._context.log
        while stm._goes_on() and not follower.is_probing:
            prev_index = follower.expected_log_end_index
            if follower.match_index >= log.dirty_index:
                follower.on_handed_over()
                return
            request = append_request(stm._context, prev_index, log.term_at(prev_index), flush=False)
            entries = await stm._read(Index(prev_index + 1)) or []
            await stm._settle(stm._send(request, entries, Index(prev_index + len(entries))))

    patch.setattr(RecoveryStm, "_fill", fill)


def rounds_skip_whom_recovery_has_served(patch: pytest.MonkeyPatch) -> None:
    """P19: the old skipping: rounds leave a follower out until what recovery sent last has been answered."""
    whole_hand_over, whole_fill = RecoveryStm._hand_over, RecoveryStm._fill

    def hand_over(stm: RecoveryStm) -> None:
        whole_hand_over(stm)
        stm._follower.needs_recovery = stm._follower.in_flight > 0

    async def fill(stm: RecoveryStm) -> None:
        await whole_fill(stm)
        if stm._follower.needs_recovery and not stm._follower.is_probing:
            await stm._until_idle()
            stm._follower.needs_recovery = stm._follower.is_probing

    def expects(follower: FollowerIndexMetadata, first_index: int) -> bool:
        return not follower.needs_recovery and follower.expected_log_end_index + 1 == first_index

    patch.setattr(RecoveryStm, "_hand_over", hand_over)
    patch.setattr(RecoveryStm, "_fill", fill)
    patch.setattr(FollowerIndexMetadata, "expects", expects)


def each_refusal_begins_a_recovery(patch: pytest.MonkeyPatch) -> None:
    """P18: every refused request begins a recovery of its own."""
    whole_mismatch = FollowerIndexMetadata.on_mismatch

    def on_mismatch(follower: FollowerIndexMetadata, reply) -> None:
        whole_mismatch(follower, reply)
        follower.is_recovering = False

    patch.setattr(FollowerIndexMetadata, "on_mismatch", on_mismatch)


def hand_over_leaves_a_gap(patch: pytest.MonkeyPatch) -> None:
    """P18: recovery hands over one entry further than it has sent."""
    whole_hand_over = RecoveryStm._hand_over

    def hand_over(stm: RecoveryStm) -> None:
        if stm._follower.expected_log_end_index < stm._context.log.dirty_index:
            stm._follower.expected_log_end_index = Index(stm._follower.expected_log_end_index + 1)
        whole_hand_over(stm)

    patch.setattr(RecoveryStm, "_hand_over", hand_over)


def hand_over_sends_twice(patch: pytest.MonkeyPatch) -> None:
    """P19: recovery hands over without saying how far it has sent."""
    whole_hand_over = RecoveryStm._hand_over

    def hand_over(stm: RecoveryStm) -> None:
        sent_before = stm._follower.expected_log_end_index
        whole_hand_over(stm)
        stm._follower.expected_log_end_index = sent_before

    patch.setattr(RecoveryStm, "_hand_over", hand_over)


# -- transfers ------------------------------------------------------------------------------------------------------


def transfers_wait_for_whoever_lags(patch: pytest.MonkeyPatch) -> None:
    """P20: a target is taken however much it lacks, and writes wait for it."""
    patch.setattr(LeadershipTransfer, "_check_near", lambda transfer, follower: None)


def transfers_wait_an_election_timeout(patch: pytest.MonkeyPatch) -> None:
    """P20: a target has an election timeout for what it lacks, and writes wait for it."""
    patch.setattr(raft.leadership_transfer, "_CATCH_UP_SECONDS", 1.5)
