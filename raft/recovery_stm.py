"""Brings one lagging follower up to date from the leader's log (RFC 0004).

    probe     while the shared prefix is not known: ask about one entry, back up by whole terms
    send      chunks from the log, one in flight, each the next that the follower expects
    install   where the follower lacks what the log no longer holds: the snapshot instead, then on with `send`
    hand over once everything written has been sent: in that same synchronous step replicate_entries_stm takes over

One fiber per lagging follower. Commit and visible are read before the log, so a request never carries a commit
index that covers entries the reader has not seen.
"""

import asyncio

from model.ids import Index, Term
from raft.append_dispatch import append_request, is_right_replica, send_append, send_snapshot_chunk, wire_buffers
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.messages import AppendEntriesReply, AppendEntriesRequest, AppendStatus, InstallSnapshotRequest
from raft.replica_context import ReplicaContext
from raft.rules.recovery import next_index_after_reject
from storage.entry import Entry
from storage.errors import LogTruncatedError, StorageError

# A flush this often lets the follower's commit move during a long recovery.
_FLUSH_EVERY_BYTES = 1024 * 1024
_REFUSALS = (AppendStatus.GAP, AppendStatus.TERM_MISMATCH)


class RecoveryStm:
    """One recovery of one follower in one term; the only one from its construction to the end of `run`."""

    def __init__(self, context: ReplicaContext, follower: FollowerIndexMetadata) -> None:
        assert follower.needs_recovery
        assert not follower.is_recovering
        # From now on, not from the fiber's first step on: two replies may be taken before that.
        follower.is_recovering = True
        self._context = context
        self._follower = follower
        self._term = context.state.term
        self._sent_since_flush = 0

    async def run(self) -> None:
        """Recover until caught up, until contact is lost, or until this leadership ends.

        When contact is lost the follower keeps `needs_recovery`, and its next reply starts a new recovery.
        """
        follower, context = self._follower, self._context
        context.probe.recoveries_started += 1
        context.logger.debug("recovers node %d from %d", follower.node_id, follower.next_index_hint)
        try:
            await self._until_idle()
            while self._is_current() and is_right_replica(context, follower):
                if not await self._step():
                    return
        except StorageError as error:
            context.fail(error)
        finally:
            follower.is_recovering = False

    def _is_current(self) -> bool:
        state = self._context.state
        return (
            state.is_leader
            and state.term == self._term
            and state.followers.get(self._follower.node_id) is self._follower
        )

    async def _until_idle(self) -> None:
        """Let requests that replicate_entries_stm sent end first: their refusals belong to the time before."""
        if self._follower.in_flight > 0:
            idle = asyncio.Event()
            self._follower.on_idle = idle.set
            await idle.wait()

    async def _step(self) -> bool:
        """Send one probe or chunk; return whether to go on."""
        context, follower, log = self._context, self._follower, self._context.log
        next_index = Index(max(log.start_index, min(follower.next_index_hint, log.last_index + 1)))
        prev_index = Index(next_index - 1)
        request = append_request(context, prev_index, log.term_at(prev_index), flush=False)
        entries: list[Entry] = []
        if follower.match_index >= prev_index:
            try:
                entries = await log.read(next_index, context.options.recovery_chunk_bytes)
            except LogTruncatedError:
                # The start has moved on during the read; it does not lie at `next_index` any more.
                return next_index < log.start_index
            if not self._is_current():
                return False
        last = entries[-1].index if entries else prev_index
        if self._wants_flush(entries, last):
            request = append_request(context, prev_index, Term(request.prev_term), flush=True)
        size = sum(entry.size for entry in entries)
        self._sent_since_flush = 0 if request.flush else self._sent_since_flush + size
        context.probe.recovery_bytes += size
        if context.figures is not None:
            context.figures.recovery_bytes += size
        reply = await self._exchange(request, entries, last)
        if reply is None or not self._is_current():
            return False
        if reply.status in _REFUSALS and 0 < prev_index < log.start_index:
            return await self._install()
        return self._take(reply, prev_index, last)

    def _wants_flush(self, entries: list[Entry], last: Index) -> bool:
        if not entries or self._follower.flushed_index >= self._context.state.last_asked_index:
            return False
        return last >= self._context.log.last_index or self._sent_since_flush >= _FLUSH_EVERY_BYTES

    async def _exchange(
        self, request: AppendEntriesRequest, entries: list[Entry], last: Index
    ) -> AppendEntriesReply | None:
        return await self._settle(send_append(self._context, self._follower, request, wire_buffers(entries), last))

    @staticmethod
    async def _settle(future: asyncio.Future[AppendEntriesReply]) -> AppendEntriesReply | None:
        settled = asyncio.Event()
        future.add_done_callback(lambda _: settled.set())
        await settled.wait()
        if future.cancelled() or future.exception() is not None:
            return None
        return future.result()

    async def _install(self) -> bool:
        """The follower lacks the entry before the log start: send what those entries have come to."""
        context, follower = self._context, self._follower
        snapshot = await context.log_state.take()
        if not self._is_current():
            return False
        start, state = snapshot.start, snapshot.state
        context.probe.snapshots_sent += 1
        context.logger.info(
            "sends node %d a snapshot of %d bytes, log start %d", follower.node_id, len(state), start.index
        )
        position = 0
        while True:
            chunk = state[position : position + context.options.recovery_chunk_bytes]
            request = InstallSnapshotRequest(
                context.group, self._term, start, snapshot.applied_index, snapshot.applied_term, position, len(state)
            )
            if context.figures is not None:
                context.figures.recovery_bytes += len(chunk)
            reply = await self._settle(send_snapshot_chunk(context, follower, request, chunk))
            if reply is None or not self._is_current():
                return False
            position += len(chunk)
            if reply.status is AppendStatus.SUCCESS:
                follower.next_index_hint = start.index
                return True
            if reply.status is not AppendStatus.ALIVE or position >= len(state):
                return False

    def _take(self, reply: AppendEntriesReply, prev_index: Index, last: Index) -> bool:
        follower, log = self._follower, self._context.log
        match reply.status:
            case AppendStatus.SUCCESS:
                follower.next_index_hint = Index(last + 1)
                if follower.match_index >= last >= log.last_index:
                    # Everything written has been sent: from here on rounds go straight to this follower.
                    assert follower.expected_log_end_index == log.last_index
                    follower.needs_recovery = False
                    self._context.logger.debug("recovered node %d up to %d", follower.node_id, last)
                    return False
                return True
            case AppendStatus.GAP | AppendStatus.TERM_MISMATCH:
                follower.next_index_hint = next_index_after_reject(Index(reply.match), prev_index, log.last_index)
                return prev_index > 0
            case _:
                return False
