"""Follower side of replication: many requests, one lock, one flush.

Requests queue in arrival order without the reader ever waiting. A drain takes all of them, takes `op_lock` once,
appends each without a flush, and then one fsync answers all that asked for one, while the next drain already
appends: group commit on the follower.

Replies are built when they are sent, from the current state: an append that finished under an old term answers
with the new term and no success (counterexample 19).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from model.ids import Index, NodeId, Offset, Term
from raft.errors import InvariantViolatedError
from raft.messages import AppendEntriesReply, AppendEntriesRequest, AppendStatus
from raft.replica_context import ReplicaContext
from raft.replica_flusher import ReplicaFlusher
from raft.rules.append import AppendPlan, LogView, Reject, plan_append
from raft.rules.recovery import retry_index
from storage.entry import Entry
from storage.errors import DiskFullError, StorageError
from storage.log import Log


class _Queued(NamedTuple):
    leader: NodeId
    request: AppendEntriesRequest
    entries: Sequence[Entry]
    reply: asyncio.Future[AppendEntriesReply]


class _Outcome(NamedTuple):
    queued: _Queued
    status: AppendStatus
    match: Index


class AppendEntriesBuffer:
    """The queue between the link and the follower's log."""

    def __init__(self, context: ReplicaContext, flusher: ReplicaFlusher) -> None:
        self._context = context
        self._flusher = flusher
        self._queue: deque[_Queued] = deque()
        self._is_draining = False

    @property
    def is_busy(self) -> bool:
        """Whether entries that come now are answered BUSY: heartbeats say so, and no append comes in vain."""
        return self._is_full or self._is_behind

    def submit(
        self, leader: NodeId, request: AppendEntriesRequest, entries: Sequence[Entry]
    ) -> asyncio.Future[AppendEntriesReply]:
        """Queue a request; the future ends with the reply, at once with BUSY where the queue or the disk is behind."""
        reply: asyncio.Future[AppendEntriesReply] = asyncio.get_running_loop().create_future()
        queued = _Queued(leader, request, entries, reply)
        self._context.probe.append_requests_received += 1
        if self._is_full or (entries and self._is_behind):
            self._answer(_Outcome(queued, AppendStatus.BUSY, Index(0)))
            return reply
        self._queue.append(queued)
        if not self._is_draining:
            self._is_draining = True
            self._context.gate.spawn(self._drain(), name="append-buffer")
        return reply

    @property
    def _is_full(self) -> bool:
        return len(self._queue) >= self._context.options.append_buffer_requests

    @property
    def _is_behind(self) -> bool:
        return self._context.log.unflushed_bytes >= self._context.options.unflushed_bytes

    def close(self) -> None:
        """The replica stops: whoever waits is told so."""
        queue, self._queue = self._queue, deque()
        for queued in queue:
            queued.reply.cancel()

    async def _drain(self) -> None:
        try:
            while self._queue:
                taken, self._queue = self._queue, deque()
                async with self._context.op_lock:
                    outcomes = [await self._append(queued) for queued in taken]
                waiting = [outcome for outcome in outcomes if outcome.queued.request.flush]
                for outcome in outcomes:
                    if not outcome.queued.request.flush:
                        self._answer(outcome)
                if waiting:
                    self._context.gate.spawn(self._flush_and_answer(waiting), name="append-flush")
                self._flusher.note_append()
        finally:
            self._is_draining = False

    async def _flush_and_answer(self, outcomes: Sequence[_Outcome]) -> None:
        if any(outcome.status is AppendStatus.SUCCESS for outcome in outcomes):
            await self._flusher.flush()
        for outcome in outcomes:
            self._answer(outcome)

    def _answer(self, outcome: _Outcome) -> None:
        """Reply from the state as it is now."""
        context, state = self._context, self._context.state
        request, reply = outcome.queued.request, outcome.queued.reply
        if reply.done():
            return
        status = outcome.status
        if state.term != request.term or state.leader_id != outcome.queued.leader:
            status = AppendStatus.STALE_TERM
        if status is AppendStatus.SUCCESS:
            state.on_leader_progress(Index(request.commit), Index(request.visible))
        reply.set_result(follower_reply(context, status, outcome.match))

    async def _append(self, queued: _Queued) -> _Outcome:
        context, state, request = self._context, self._context.state, queued.request
        if state.term != request.term or state.leader_id != queued.leader:
            return _Outcome(queued, AppendStatus.STALE_TERM, Index(0))
        log, entries = context.log, queued.entries
        prev_index = Index(request.prev_index)
        plan = plan_append(
            LogView(log.start_index, log.last_index, state.commit_index, log.term_at),
            prev_index,
            Term(request.prev_term),
            [(entry.index, entry.term) for entry in entries],
        )
        if isinstance(plan, Reject):
            return self._refuse(queued, plan, prev_index)
        try:
            await self._write(plan, entries)
        except DiskFullError:
            context.limits.disk.note_full(sum(entry.size for entry in entries))
            return _Outcome(queued, AppendStatus.FAILED, Index(0))
        except (StorageError, InvariantViolatedError) as error:
            context.fail(error)
            return _Outcome(queued, AppendStatus.FAILED, Index(0))
        last = entries[-1].index if entries else prev_index
        # A vote may have raised the term during the write: then nothing was matched with the new leader.
        if state.term == request.term and state.leader_id == queued.leader:
            state.on_matched(last)
        return _Outcome(queued, AppendStatus.SUCCESS, last)

    async def _write(self, plan: AppendPlan, entries: Sequence[Entry]) -> None:
        context = self._context
        if plan.truncate_at is not None:
            last, end_offset = context.log.last_index, context.log.next_offset
            context.state.on_truncating(plan.truncate_at)
            context.probe.truncations += 1
            context.probe.entries_truncated += last - plan.truncate_at + 1
            context.logger.info("truncates [%d, %d]: a newer leader has other entries", plan.truncate_at, last)
            ends = _epoch_ends(context.log, plan.truncate_at)
            context.log_state.truncate(plan.truncate_at)
            await context.log.truncate(plan.truncate_at)
            first_offset = context.log.next_offset
            context.probe.records_truncated += end_offset - first_offset
            context.logger.info("truncated records: %s", _record_ranges(first_offset, ends))
        if plan.skip < len(entries):
            await self._append_new(entries[plan.skip :])

    async def _append_new(self, entries: Sequence[Entry]) -> None:
        # Noted before they are written: the next heartbeat may commit what has just been written.
        log_state = self._context.log_state
        for entry in entries:
            log_state.note(entry)
        try:
            await self._context.log.append(entries)
        except StorageError:
            log_state.truncate(entries[0].index)
            raise
        self._context.limits.disk.note_appended(sum(entry.size for entry in entries))

    def _refuse(self, queued: _Queued, reject: Reject, prev_index: Index) -> _Outcome:
        context, log = self._context, self._context.log
        match reject:
            case Reject.GAP:
                return _Outcome(queued, AppendStatus.GAP, log.last_index)
            case Reject.TERM_MISMATCH:
                return _Outcome(
                    queued, AppendStatus.TERM_MISMATCH, retry_index(log.term_at, log.start_index, prev_index)
                )
            case Reject.CONFLICT_WITH_COMMITTED:
                context.fail(InvariantViolatedError(f"node {queued.leader} contradicts committed entries"))
                return _Outcome(queued, AppendStatus.FAILED, Index(0))


def _epoch_ends(log: Log, truncate_at: Index) -> list[tuple[Term, Offset]]:
    """Return each epoch that has entries from `truncate_at` on, with the offset at which its records end."""
    begun = [start.term for start in log.terms_within(truncate_at, log.last_index)]
    return [log.epoch_end(term) for term in (log.term_at(truncate_at), *begun)]


def _record_ranges(first_offset: Offset, ends: Sequence[tuple[Term, Offset]]) -> str:
    """Return what is gone as `epoch@[first, end) ...`; `none` where the entries held no records.

    It is how an operator tells which records that a leader had acknowledged alone (acks=1) are lost.
    """
    ranges = []
    for epoch, end in ends:
        if end > first_offset:
            ranges.append(f"{epoch}@[{first_offset}, {end})")
            first_offset = end
    return " ".join(ranges) or "none"


def follower_reply(context: ReplicaContext, status: AppendStatus, match: Index) -> AppendEntriesReply:
    """Return a reply with this replica's current term and positions, as far as matched with its leader."""
    state, log = context.state, context.log
    matched = state.matched_index
    return AppendEntriesReply(state.term, status, match, min(log.last_index, matched), min(log.flushed_index, matched))
