"""Bugs of recovery, and of its hand-over to the rounds (RFC 0004)."""

import asyncio

import pytest

from model.ids import Index
from raft.append_dispatch import append_request
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.recovery_stm import RecoveryStm


def recovery_waits_a_second(patch: pytest.MonkeyPatch) -> None:
    """Recovery of a follower that is behind begins a second late."""
    whole_run = RecoveryStm.run

    async def run(stm: RecoveryStm) -> None:
        await asyncio.sleep(1.0)
        await whole_run(stm)

    patch.setattr(RecoveryStm, "run", run)


def rounds_do_not_heed_recovery(patch: pytest.MonkeyPatch) -> None:
    """Rounds go to a follower while recovery sends to it, too."""

    def expects(follower: FollowerIndexMetadata, first_index: int) -> bool:
        return True

    patch.setattr(FollowerIndexMetadata, "expects", expects)
    _senders_are_not_checked(patch)


def recovery_does_not_wait_for_quiet(patch: pytest.MonkeyPatch) -> None:
    """Recovery begins with the first refusal, while the refusals of later rounds are still to come."""

    async def until_idle(stm: RecoveryStm) -> None:
        return

    patch.setattr(RecoveryStm, "_until_idle", until_idle)
    _senders_are_not_checked(patch)


def recovery_ends_with_an_answer_at_the_end_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """Recovery sends one chunk after the other, until an answer finds that nothing was written meanwhile."""

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
    _senders_are_not_checked(patch)


def rounds_skip_whom_recovery_has_served(patch: pytest.MonkeyPatch) -> None:
    """Rounds leave a follower out until what recovery sent last has been answered."""
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
    """Every refused request begins a recovery of its own."""
    whole_mismatch = FollowerIndexMetadata.on_mismatch

    def on_mismatch(follower: FollowerIndexMetadata, reply) -> None:
        whole_mismatch(follower, reply)
        follower.is_recovering = False

    patch.setattr(FollowerIndexMetadata, "on_mismatch", on_mismatch)
    _senders_are_not_checked(patch)


def hand_over_leaves_a_gap(patch: pytest.MonkeyPatch) -> None:
    """Recovery hands over one entry further than it has sent."""
    whole_hand_over = RecoveryStm._hand_over

    def hand_over(stm: RecoveryStm) -> None:
        if stm._follower.expected_log_end_index < stm._context.log.dirty_index:
            stm._follower.expected_log_end_index = Index(stm._follower.expected_log_end_index + 1)
        whole_hand_over(stm)

    patch.setattr(RecoveryStm, "_hand_over", hand_over)


def hand_over_sends_twice(patch: pytest.MonkeyPatch) -> None:
    """Recovery hands over without saying how far it has sent, and the backlog is sent twice."""
    whole_hand_over = RecoveryStm._hand_over

    def hand_over(stm: RecoveryStm) -> None:
        sent_before = stm._follower.expected_log_end_index
        whole_hand_over(stm)
        stm._follower.expected_log_end_index = sent_before

    patch.setattr(RecoveryStm, "_hand_over", hand_over)


def _senders_are_not_checked(patch: pytest.MonkeyPatch) -> None:
    """The product asserts what these bugs break, where it sends: the proof of the row must object, not the assert."""
    patch.setattr(FollowerIndexMetadata, "check_may_send", lambda follower, prev_index, window: None)
