"""Sends append requests to one follower and takes the replies: shared by replicate_entries_stm and recovery_stm."""

import asyncio
from collections.abc import Sequence

import msgspec

from model.ids import Index, Replica, Term
from raft.client import Buffer
from raft.effects import ANSWERED, RecoveryWanted
from raft.follower_index_metadata import NEVER, FollowerIndexMetadata
from raft.interval_figures import IntervalFigures
from raft.messages import AppendEntriesReply, AppendEntriesRequest, AppendStatus, InstallSnapshotRequest
from raft.replica_context import ReplicaContext
from raft.snapshot_chunks import seal_chunk
from storage.entry import Entry, pack_header

# A mark of another replica would say nothing here: the receiver stamps its own.
_NO_MARK = Index(0)
# So many requests of the backlog are put together in one step: a MiB of small entries takes some milliseconds.
_BACKLOG_BURST = 4


def wire_buffers(entries: Sequence[Entry]) -> list[Buffer]:
    """Return the entries as they travel: header, payload, header, payload ..."""
    buffers: list[Buffer] = []
    for entry in entries:
        buffers.append(pack_header(entry, _NO_MARK))
        if entry.payload:
            buffers.append(entry.payload)
    return buffers


def append_request(context: ReplicaContext, prev_index: Index, prev_term: Term, *, flush: bool) -> AppendEntriesRequest:
    """Return a request that follows `prev_index`, with the leader's current commit and visible."""
    state = context.state
    return AppendEntriesRequest(
        context.link_name, state.term, prev_index, prev_term, state.commit_index, state.visible_index, flush
    )


def is_right_replica(context: ReplicaContext, follower: FollowerIndexMetadata) -> bool:
    """Whether the directory that answers as that node is the configured one (counterexample 4)."""
    configured: Replica | None = context.state.configuration.replica_on(follower.node_id)
    return configured is not None and context.client.replica_of(follower.node_id) == configured


def skips(context: ReplicaContext, follower: FollowerIndexMetadata, size: int) -> bool:
    """Whether a request with `size` bytes of entries is left out for now: an answer is to come, and brings it then.

    Without an answer to come it is sent all the same: refused by a full link, it is left to recovery.
    """
    if follower.in_flight >= context.options.follower_window:
        return True
    return follower.in_flight > 0 and not context.client.has_room(follower.node_id, size)


def send_append(
    context: ReplicaContext,
    follower: FollowerIndexMetadata,
    request: AppendEntriesRequest,
    buffers: Sequence[Buffer],
    last_index: Index,
    *,
    after: Index | None = None,
) -> asyncio.Future[AppendEntriesReply]:
    """Send entries up to `last_index`; the reply is taken into the state before the future's awaiters run.

    `after` is the follower's place, where the first entry is a placeholder that begins before it (`behind`).
    """
    assert last_index >= request.prev_index
    place = request.prev_index if after is None else after
    assert request.prev_index <= place <= last_index
    follower.check_may_send(place, context.options.follower_window)
    if after is not None and last_index > request.prev_index:
        # What rounds send is new to everybody.
        context.state.clean_indexes.sent(follower.node_id, Index(request.prev_index + 1))
    follower.expected_log_end_index = last_index
    follower.on_sent()
    context.probe.append_requests_sent += 1
    number = follower.next_request()
    future = context.client.append_entries(follower.node_id, request, buffers)
    future.add_done_callback(lambda done: _on_done(context, follower, Term(request.term), number, done))
    return future


def send_snapshot_chunk(
    context: ReplicaContext, follower: FollowerIndexMetadata, request: InstallSnapshotRequest, chunk: Buffer
) -> asyncio.Future[AppendEntriesReply]:
    """Send a chunk of a snapshot; the reply is taken into the state before the future's awaiters run."""
    # R1: while a follower is probed, only its recovery sends.
    assert follower.is_recovering
    context.state.clean_indexes.sent(follower.node_id, request.start.index)
    follower.on_sent()
    number = follower.next_request()
    future = context.client.install_snapshot(follower.node_id, request, seal_chunk(request, chunk))
    future.add_done_callback(lambda done: _on_done(context, follower, Term(request.term), number, done))
    return future


def _on_done(
    context: ReplicaContext,
    follower: FollowerIndexMetadata,
    term: Term,
    number: int,
    future: asyncio.Future[AppendEntriesReply],
) -> None:
    failed = future.cancelled() or future.exception() is not None
    if failed:
        context.probe.append_requests_failed += 1
        follower.on_lost_contact()
    else:
        apply_reply(context, follower, term, number, future.result())
    follower.on_answered()
    if not failed and context.state.is_leader and context.state.followers.get(follower.node_id) is follower:
        send_backlog(context, follower)


def behind(context: ReplicaContext, request: AppendEntriesRequest, entries: Sequence[Entry]) -> AppendEntriesRequest:
    """Return `request` with the entry before `entries` as its previous one.

    The first of them may be a placeholder that begins before the entry that was read for (RFC 0022, section 2).
    """
    if not entries or entries[0].index > request.prev_index:
        return request
    prev_index = Index(entries[0].index - 1)
    return msgspec.structs.replace(request, prev_index=prev_index, prev_term=context.log.term_at(prev_index))


def send_backlog(context: ReplicaContext, follower: FollowerIndexMetadata, *, owes_flush: bool = False) -> int:
    """Send what rounds have left out, while the window was full or recovery was at work: from memory, many in one.

    Called after every answer, and by recovery when it hands over. So while something is left out, an answer is still
    to come, or it goes to recovery.

    Args:
        owes_flush: Entries were sent before that somebody waits for, and no request asked for their flush.

    Returns:
        The bytes of the entries that were sent.
    """
    log, state, options = context.log, context.state, context.options
    sent_bytes = 0
    for _ in range(_BACKLOG_BURST):
        prev_index = follower.expected_log_end_index
        if follower.needs_recovery or prev_index >= log.dirty_index:
            break
        if skips(context, follower, options.append_chunk_bytes):
            break
        first = Index(prev_index + 1)
        is_in_log = prev_index >= log.start_index - 1 and not follower.lacks_state(first, log.compacted_index)
        entries = log.recent(first, options.append_chunk_bytes) if is_in_log else None
        if not is_right_replica(context, follower):
            follower.on_lost_contact()
            break
        if entries is None:
            follower.on_left_behind()
            if not follower.is_recovering:
                context.effects.settle(RecoveryWanted(follower.node_id))
            break
        flush = owes_flush or state.last_asked_index > prev_index
        owes_flush = False
        request = behind(context, append_request(context, prev_index, log.term_at(prev_index), flush=flush), entries)
        send_append(context, follower, request, wire_buffers(entries), entries[-1].last_index, after=prev_index)
        sent_bytes += sum(entry.size for entry in entries)
    return sent_bytes


def apply_reply(
    context: ReplicaContext,
    follower: FollowerIndexMetadata,
    term: Term,
    number: int,
    reply: AppendEntriesReply,
    *,
    is_append: bool = True,
) -> None:
    """Take the reply to the follower's request `number`, an append or a heartbeat, that was sent in `term`."""
    state = context.state
    context.effects.observe_term(reply.term)
    if state.term != term or state.followers.get(follower.node_id) is not follower:
        # Sent in an older leadership: says nothing about this one. Without this check it would count a copy that the
        # follower may have replaced since, and confirm reads of a leader that was deposed in between.
        return
    if reply.term != term:
        return
    follower.last_reply_at = context.now()
    follower.answered_request = max(follower.answered_request, number)
    if reply.status is not AppendStatus.BUSY:
        _apply_positions(context, follower, reply)
    else:
        follower.on_busy(number, is_append=is_append)
    # Busy or not, it is an answer in our term. Only one that is not busy lets recovery, and so the next append, begin.
    context.effects.settle(ANSWERED)


def _apply_positions(context: ReplicaContext, follower: FollowerIndexMetadata, reply: AppendEntriesReply) -> None:
    match reply.status:
        case AppendStatus.SUCCESS:
            follower.on_success(reply)
        case AppendStatus.ALIVE:
            follower.on_alive(reply)
        case AppendStatus.GAP | AppendStatus.TERM_MISMATCH:
            follower.on_mismatch(reply)
        case AppendStatus.FAILED | AppendStatus.UNKNOWN_GROUP | AppendStatus.STALE_TERM | AppendStatus.DAMAGED:
            follower.on_lost_contact()
            return
    context.effects.settle(context.state.advance())
    before = follower.caught_up_at
    commit, last = context.state.commit_index, context.log.dirty_index
    follower.update_caught_up(commit, last, follower.last_reply_at, context.options.replica_lag_max)
    # Before that the commit index may be that of the last life of this process.
    if context.state.is_in_office and follower.match_index >= context.state.commit_index:
        follower.has_joined = True
    if context.figures is not None:
        _note_return(context, context.figures, follower, before)
    if follower.needs_recovery and follower.may_recover and not follower.is_recovering:
        context.effects.settle(RecoveryWanted(follower.node_id))


def _note_return(
    context: ReplicaContext, figures: IntervalFigures, follower: FollowerIndexMetadata, before: float
) -> None:
    """Note how many were in sync until now, if the follower, which was caught up `before`, has just come back."""
    oldest = follower.last_reply_at - context.options.replica_lag_max
    # Replicas leave the set as time passes. So it is smallest just before one comes back, or when telemetry looks.
    # A follower that this leadership has not seen caught up yet does not come back: nobody knows that it was away.
    is_back = NEVER < before < oldest <= follower.caught_up_at
    if is_back and context.state.is_leader:
        in_sync = sum(each.caught_up_at >= oldest for each in context.state.followers.values())
        # With the leader, and without the one that is back.
        figures.saw_in_sync(in_sync)
