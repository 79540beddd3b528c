"""Bugs of rounds: how a leader writes and sends what a batch of writes has become (RFC 0003 sections 1 and 2)."""

import pytest

import raft.replicate_entries_stm
from model.ids import Index
from raft.append_dispatch import append_request, send_append, wire_buffers
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.replicate_entries_stm import ReplicateEntriesStm
from runtime.workers import Pool


def relaxed_rounds_are_left_to_recovery(patch: pytest.MonkeyPatch) -> None:
    """Only rounds with a quorum item are sent; recovery carries the rest, as before the seed RFC."""
    whole_dispatch = ReplicateEntriesStm._dispatch

    def dispatch(stm: ReplicateEntriesStm) -> None:
        if stm._asked is not None:
            whole_dispatch(stm)
            return
        for follower in stm._context.state.followers.values():
            follower.on_lost_contact()

    patch.setattr(ReplicateEntriesStm, "_dispatch", dispatch)


def dispatch_waits_for_the_flush(patch: pytest.MonkeyPatch) -> None:
    """Followers get a round after the leader's fsync."""
    whole_dispatch = ReplicateEntriesStm._dispatch

    def dispatch(stm: ReplicateEntriesStm) -> None:
        async def later() -> None:
            await stm._flusher.flush()
            if stm._still_leads():
                whole_dispatch(stm)

        stm._context.gate.spawn(later(), name="late-dispatch")

    patch.setattr(ReplicateEntriesStm, "_dispatch", dispatch)


def dispatch_precedes_the_write(patch: pytest.MonkeyPatch) -> None:
    """Followers get a round before the leader has written it, and may hold what it lacks."""
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
    """Nothing bounds the requests in flight to one follower."""

    def takes(stm: ReplicateEntriesStm, follower: FollowerIndexMetadata) -> bool:
        return follower.expects(stm._entries[0].index)

    patch.setattr(ReplicateEntriesStm, "_may_send_to", takes)
    # The product asserts the same, where it sends.
    patch.setattr(FollowerIndexMetadata, "check_may_send", lambda follower, prev_index, window: None)


def a_request_per_follower(patch: pytest.MonkeyPatch) -> None:
    """The bytes of a request are put together again for each follower."""

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
    """The leader reads from its disk what it sends."""
    whole_apply = ReplicateEntriesStm.apply

    async def apply(stm: ReplicateEntriesStm) -> None:
        await whole_apply(stm)
        await stm._context.env.workers.run(Pool.READ, lambda: None)

    patch.setattr(ReplicateEntriesStm, "apply", apply)
