"""Follower side of replication: many requests, one lock, one flush.

Requests queue in arrival order without the reader ever waiting. A drain takes all of them, takes `op_lock` once,
appends each without a flush, and then one fsync answers all that asked for one, while the next drain already
appends: group commit on the follower.

Nothing is written in a term that a restart could forget: the drain waits until it is durable, for a short while, and
answers BUSY where it is not by then. So it answers to a configuration until the node may hold one.

Replies are built when they are sent, from the current state: an append that finished under an old term answers
with the new term and no success (counterexample 19).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from model.ids import Index, NodeId, Offset, Term
from raft.errors import InvariantViolatedError
from raft.messages import AppendEntriesReply, AppendEntriesRequest, AppendStatus
from raft.replica_context import ReplicaContext
from raft.replica_flusher import ReplicaFlusher
from raft.rules.append import AppendPlan, LogView, Reject, plan_append
from raft.rules.recovery import retry_index
from raft.vote_store import VoteStore
from raft.write_steps import Step
from storage.entry import Entry, EntryKind
from storage.errors import DiskFullError, RefusedError, StorageError
from storage.log import Log
from storage.placeholder import rest_of

_KIND_OF = attrgetter("kind")


class _Asked(NamedTuple):
    leader: NodeId
    request: AppendEntriesRequest
    reply: asyncio.Future[AppendEntriesReply]


class _Queued(NamedTuple):
    asked: _Asked
    entries: Sequence[Entry]
    # What it holds of the node's budget.
    units: int


class _Outcome(NamedTuple):
    """Without the entries: the log has them, and who waits for an fsync keeps none in memory."""

    asked: _Asked
    status: AppendStatus
    match: Index


class AppendEntriesBuffer:
    """The queue between the link and the follower's log."""

    def __init__(self, context: ReplicaContext, flusher: ReplicaFlusher, votes: VoteStore) -> None:
        self._context = context
        self._flusher = flusher
        self._votes = votes
        self._queue: deque[_Queued] = deque()
        # What the drain has taken and the log does not have yet.
        self._taken: deque[_Queued] = deque()
        # Bytes of both.
        self._held_bytes = 0
        self._is_draining = False
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether entries that come now are answered BUSY: heartbeats say so, and no append comes in vain."""
        return self._is_full or self._is_behind

    def submit(
        self, leader: NodeId, request: AppendEntriesRequest, entries: Sequence[Entry]
    ) -> asyncio.Future[AppendEntriesReply]:
        """Queue a request; the future ends with the reply, at once with BUSY where the queue or the disk is behind, or
        where the node holds too much of such requests.
        """
        reply: asyncio.Future[AppendEntriesReply] = asyncio.get_running_loop().create_future()
        asked = _Asked(leader, request, reply)
        self._context.probe.append_requests_received += 1
        if self._is_closed:
            reply.cancel()
            return reply
        units = None if self._has_too_many or (entries and self._is_behind) else self._acquire(entries)
        if units is None:
            self._answer(_Outcome(asked, AppendStatus.BUSY, Index(0)))
            return reply
        self._queue.append(_Queued(asked, entries, units))
        if not self._is_draining:
            self._is_draining = True
            self._context.gate.spawn(self._drain(), name="append-buffer")
        return reply

    @property
    def _is_full(self) -> bool:
        """Whether the next request of recovery would find no room."""
        context = self._context
        return self._has_too_many or not context.limits.append_buffers.has_room(
            context.options.recovery_chunk_bytes, self._held_bytes, is_internal=context.is_internal
        )

    @property
    def _has_too_many(self) -> bool:
        return len(self._queue) >= self._context.options.append_buffer_requests

    def _acquire(self, entries: Sequence[Entry]) -> int | None:
        context, size = self._context, sum(entry.size for entry in entries)
        units = context.limits.append_buffers.try_acquire(size, self._held_bytes, is_internal=context.is_internal)
        self._held_bytes += units or 0
        return units

    def _release(self, queued: _Queued) -> None:
        # RFC 0003 section 9: a request's bytes are given back once; twice, and the node would hold more than its bound.
        assert 0 <= queued.units <= self._held_bytes
        self._held_bytes -= queued.units
        self._context.limits.append_buffers.release(queued.units)

    @property
    def _is_behind(self) -> bool:
        return self._context.log.unflushed_bytes >= self._context.options.unflushed_bytes

    def close(self) -> None:
        """The replica stops: whoever waits is told so."""
        self._is_closed = True
        self._drop(self._queue)

    def _drop(self, line: deque[_Queued]) -> None:
        while line:
            queued = line.popleft()
            queued.asked.reply.cancel()
            self._release(queued)

    async def _drain(self) -> None:
        try:
            while self._queue:
                if not self._context.state.is_term_durable:
                    await self._votes.wait_for_term()
                # One drain at a time: two of them would append in another order than the requests came in.
                assert not self._taken
                self._taken, self._queue = self._queue, deque()
                outcomes = []
                async with self._context.op_lock:
                    while self._taken:
                        outcomes.append(await self._append(self._taken[0]))
                        self._release(self._taken.popleft())
                # Section 9: what is held is what is queued. With bytes counted twice the group would stay BUSY.
                assert self._queue or not self._held_bytes
                waiting = [outcome for outcome in outcomes if outcome.asked.request.flush]
                for outcome in outcomes:
                    if not outcome.asked.request.flush:
                        self._answer(outcome)
                if waiting:
                    self._context.gate.spawn(self._flush_and_answer(waiting), name="append-flush")
                self._flusher.schedule_flush()
        except BaseException:
            self.close()
            raise
        finally:
            self._is_draining = False
            # Nothing is left of it unless this fiber was ended in the middle.
            self._drop(self._taken)

    async def _flush_and_answer(self, outcomes: Sequence[_Outcome]) -> None:
        if any(outcome.status is AppendStatus.SUCCESS for outcome in outcomes):
            await self._flusher.flush()
        for outcome in outcomes:
            self._answer(outcome)

    def _answer(self, outcome: _Outcome) -> None:
        """Reply from the state as it is now."""
        context, state = self._context, self._context.state
        leader, request, reply = outcome.asked
        if reply.done():
            return
        status = outcome.status
        # Without this check an append that ended under an old term would be a success of the new one: an entry that
        # the new leader replaces would count as a copy (counterexample 19). A replica that has stopped, for example
        # because its fsync failed, follows nobody: it answers STALE_TERM, too.
        if state.term != request.term or state.leader_id != leader:
            status = AppendStatus.STALE_TERM
        if status is AppendStatus.SUCCESS:
            context.effects.settle(state.on_leader_progress(Index(request.commit), Index(request.visible)))
        reply.set_result(follower_reply(context, status, outcome.match))

    async def _append(self, queued: _Queued) -> _Outcome:
        context, state, asked = self._context, self._context.state, queued.asked
        request = asked.request
        # The plan below is made from the log as it is now: only this lock keeps it so until the entries are written.
        assert context.op_lock.locked()
        # Without this check entries of a deposed leader, queued before its successor's, would replace them.
        if state.term != request.term or state.leader_id != asked.leader:
            return _Outcome(asked, AppendStatus.STALE_TERM, Index(0))
        # Without this check a restart could forget the term in which entries were truncated (S9, counterexample 41).
        if not state.is_term_durable:
            return _Outcome(asked, AppendStatus.BUSY, Index(0))
        log, entries = context.log, queued.entries
        # Without this check an older version would open the directory, and skip the configuration.
        if not context.node.configurations.is_open and EntryKind.CONFIGURATION in map(_KIND_OF, entries):
            context.node.configurations.open_soon()
            return _Outcome(asked, AppendStatus.BUSY, Index(0))
        prev_index = Index(request.prev_index)
        plan = plan_append(
            LogView(log.start_index, log.dirty_index, state.commit_index, log.term_at),
            prev_index,
            Term(request.prev_term),
            [(entry.index, entry.last_index, entry.term) for entry in entries],
        )
        if isinstance(plan, Reject):
            return self._refuse(asked, plan, prev_index)
        try:
            with context.steps.under_way(Step.APPEND):
                await self._write(plan, entries)
        except RefusedError as error:
            if isinstance(error, DiskFullError):
                context.limits.disk.on_disk_full(sum(entry.size for entry in entries))
            return _Outcome(asked, AppendStatus.FAILED, Index(0))
        except (StorageError, InvariantViolatedError) as error:
            context.fail(error)
            return _Outcome(asked, AppendStatus.FAILED, Index(0))
        last = entries[-1].last_index if entries else prev_index
        # S2: the leader counts a copy up to here.
        assert last <= log.dirty_index
        # A vote may have raised the term during the write. Without this check the old leader's entries would count as
        # matched with the new leader, and its commit index would commit them.
        if state.term == request.term and state.leader_id == asked.leader:
            state.on_matched(last)
        return _Outcome(asked, AppendStatus.SUCCESS, last)

    async def _write(self, plan: AppendPlan, entries: Sequence[Entry]) -> None:
        context = self._context
        if plan.truncate_at is not None:
            last, end_offset = context.log.dirty_index, context.log.next_offset
            context.state.on_truncating(plan.truncate_at)
            context.probe.truncations += 1
            context.probe.entries_truncated += last - plan.truncate_at + 1
            context.logger.info("truncates [%d, %d]: a newer leader has other entries", plan.truncate_at, last)
            ends = _epoch_ends(context.log, plan.truncate_at)
            # In one step: until then the log has its entries, and the configurations among them are in force.
            await context.log.truncate(plan.truncate_at, partial(context.log_state.truncate, plan.truncate_at))
            first_offset = context.log.next_offset
            context.probe.records_truncated += end_offset - first_offset
            context.logger.info("truncated records: %s", _record_ranges(first_offset, ends))
        if plan.skip < len(entries):
            await self._append_new(entries[plan.skip :])

    async def _append_new(self, entries: Sequence[Entry]) -> None:
        log, log_state = self._context.log, self._context.log_state
        entries = _from_end(entries, Index(log.dirty_index + 1), log.next_offset)
        # Noted before they are written: the next heartbeat may commit what has just been written.
        for entry in entries:
            log_state.note(entry)
        try:
            await log.append(entries)
        except StorageError:
            log_state.truncate(entries[0].index)
            raise
        self._context.counts.appended_as_follower(entries)
        self._context.limits.disk.count_appended(sum(entry.size for entry in entries))

    def _refuse(self, asked: _Asked, reject: Reject, prev_index: Index) -> _Outcome:
        context, log = self._context, self._context.log
        match reject:
            case Reject.GAP:
                return _Outcome(asked, AppendStatus.GAP, log.dirty_index)
            case Reject.TERM_MISMATCH:
                return _Outcome(
                    asked, AppendStatus.TERM_MISMATCH, retry_index(log.term_at, log.start_index, prev_index)
                )
            case Reject.CONFLICT_WITH_COMMITTED:
                context.fail(InvariantViolatedError(f"node {asked.leader} contradicts committed entries"))
                return _Outcome(asked, AppendStatus.FAILED, Index(0))


def _from_end(entries: Sequence[Entry], index: Index, offset: Offset) -> Sequence[Entry]:
    """Return what is appended to a log whose next entry is `index` at `offset`: of a placeholder perhaps the rest."""
    first = entries[0]
    if first.index < index and first.base_offset <= offset <= first.end_offset:
        return [rest_of(first, index, offset), *entries[1:]]
    if first.base_offset != offset:
        raise InvariantViolatedError(f"entry {first.index} at offset {first.base_offset}, the log ends at {offset}")
    return entries


def _epoch_ends(log: Log, truncate_at: Index) -> list[tuple[Term, Offset]]:
    """Return each epoch that has entries from `truncate_at` on, with the offset at which its records end."""
    begun = [start.term for start in log.terms_within(truncate_at, log.dirty_index)]
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
    return AppendEntriesReply(state.term, status, match, min(log.dirty_index, matched), min(log.flushed_index, matched))
