"""Brings one lagging follower up to date from the leader's log (RFC 0004).

    quiet     wait until no request is in flight, so that one recovery handles all outstanding refusals
    probe     while the last shared entry is unknown: ask about one entry, go back by whole terms, until one SUCCESS
    pace      if a rate bounds it, wait before each chunk (`recovery_pace`)
    install   if the follower lacks entries that the log no longer holds: send a snapshot, then continue
    fill      send chunks from the log, up to four in flight, each the next that the follower expects
    hand over once memory holds the rest: send it in that same synchronous step, await no reply; from then on
              replicate_entries_stm sends

If a chunk or a round is refused, lost or dropped meanwhile, recovery begins again. One fiber per lagging follower.
Commit and visible are read before the log, so a request never carries a commit index that covers entries the reader has
not seen.
"""

import asyncio

from model.ids import Index, Term
from raft.append_dispatch import (
    append_request,
    behind,
    is_right_replica,
    send_append,
    send_backlog,
    send_snapshot_chunk,
    skips,
    wire_buffers,
)
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.messages import AppendEntriesReply, AppendEntriesRequest, AppendStatus, InstallSnapshotRequest
from raft.recovery_pace import RecoveryPace
from raft.replica_context import ReplicaContext
from raft.rules.recovery import next_index_after_reject
from storage.entry import Entry
from storage.errors import LogTruncatedError, RefusedError, SnapshotTooLargeError, StorageError
from storage.snapshot_file import snapshot_checksum

# A flush this often lets the follower's commit move during a long recovery.
_FLUSH_EVERY_BYTES = 1024 * 1024
# Chunks in flight: on a long link one at a time would fill it hardly at all.
_CHUNKS_MAX = 4
# Between two lines on one follower whose recovery the storage refuses.
_LOG_EVERY_SECONDS = 60.0


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
        self._pace = RecoveryPace(context, follower)
        self._sent_since_flush = 0
        self._room = asyncio.Event()

    async def run(self) -> None:
        """Recover until handed over, until contact is lost, or until this leadership ends.

        When contact is lost, or the follower is busy, it keeps `needs_recovery`, and its next answer to a request that
        is sent from then on starts a new recovery, unless it is BUSY again.
        """
        follower, context = self._follower, self._context
        context.probe.recoveries_started += 1
        context.logger.debug("recovers node %d from %d", follower.node_id, follower.next_index_hint)
        follower.on_room = self._room.set
        try:
            while self._goes_on():
                if follower.is_probing:
                    await self._until_idle()
                    if not await self._pace.is_known() or not await self._probe():
                        return
                if self._lacks_state(follower.expected_log_end_index + 1) and not await self._install():
                    return
                await self._fill()
        except SnapshotTooLargeError:
            # Said and counted by whoever has looked. The follower waits until the state is smaller.
            return
        except RefusedError as error:
            # The next one may begin with the next heartbeat's answer, and end like this one.
            if context.now() - follower.refusal_logged_at >= _LOG_EVERY_SECONDS:
                context.logger.warning("cannot read what node %d lacks, and tries again: %s", follower.node_id, error)
                follower.refusal_logged_at = context.now()
        except StorageError as error:
            context.fail(error)
        finally:
            follower.is_recovering = False
            follower.held_back_by = ""
            follower.on_room = None

    def _is_current(self) -> bool:
        state = self._context.state
        return (
            state.is_leader
            and state.term == self._term
            and state.followers.get(self._follower.node_id) is self._follower
        )

    def _goes_on(self) -> bool:
        follower = self._follower
        return (
            self._is_current()
            and follower.needs_recovery
            and follower.may_recover
            and is_right_replica(self._context, follower)
        )

    async def _until_idle(self) -> None:
        """Let requests that are in flight end first: one recovery answers all their refusals."""
        await self._until_in_flight(0)

    async def _until_in_flight(self, most: int) -> None:
        # R4: `in_flight` is never negative, so a wait for less than 0 would not end.
        assert most >= 0
        while self._follower.in_flight > most:
            self._room.clear()
            await self._room.wait()

    # -- the shared prefix --------------------------------------------------------------------------------------

    async def _probe(self) -> bool:
        """Find the last entry that both logs share; return whether it was found."""
        context, follower, log = self._context, self._follower, self._context.log
        while self._goes_on():
            next_index = Index(max(log.start_index, min(follower.next_index_hint, log.dirty_index + 1)))
            prev_index = Index(next_index - 1)
            request = append_request(context, prev_index, log.term_at(prev_index), flush=False)
            entries: list[Entry] | None = []
            if follower.match_index >= prev_index and not self._lacks_state(next_index):
                # It held that much in this term: the first chunk is the question.
                entries = await self._read_with_state(next_index)
                if not self._goes_on() or not await self._is_admitted(entries):
                    return False
            if entries is None:
                if next_index >= log.start_index:
                    return False
                continue
            last = entries[-1].last_index if entries else prev_index
            reply = await self._settle(self._send(request, entries, last))
            if reply is None or not self._is_current():
                return False
            match reply.status:
                case AppendStatus.SUCCESS:
                    # Unless a heartbeat was refused meanwhile. Without this check rounds would go on behind a gap.
                    if follower.expected_log_end_index == last <= follower.match_index:
                        follower.on_place_found()
                        return True
                case AppendStatus.GAP | AppendStatus.TERM_MISMATCH if 0 < prev_index < log.start_index:
                    if not await self._install():
                        return False
                case AppendStatus.GAP | AppendStatus.TERM_MISMATCH if prev_index > 0:
                    follower.next_index_hint = next_index_after_reject(Index(reply.match), prev_index, log.dirty_index)
                case _:
                    return False
        return False

    async def _read(self, first: Index) -> list[Entry] | None:
        """Return a chunk, None if the start of the log has moved past `first`."""
        try:
            return await self._context.log.read(first, self._pace.chunk_bytes)
        except LogTruncatedError:
            return None

    async def _read_with_state(self, first: Index) -> list[Entry] | None:
        """As `_read`; none if the log was compacted during the read, so that the follower needs a state first."""
        entries = await self._read(first)
        return [] if entries and self._lacks_state(entries[0].index) else entries

    # -- chunks -------------------------------------------------------------------------------------------------

    async def _fill(self) -> None:
        """Send what memory no longer holds, then hand over; return early where something is refused or lost."""
        context, follower, log = self._context, self._follower, self._context.log
        chunks_max = min(_CHUNKS_MAX, context.options.follower_window)
        while self._goes_on() and not follower.is_probing:
            if self._pace.is_unsure:
                if not await self._pace.ask():
                    return
                continue
            prev_index = follower.expected_log_end_index
            if prev_index < log.start_index - 1:
                follower.lose_place()
                return
            if self._lacks_state(prev_index + 1):
                return
            if self._may_hand_over(prev_index):
                self._hand_over()
                return
            if follower.in_flight >= chunks_max or skips(context, follower, context.options.recovery_chunk_bytes):
                await self._until_in_flight(follower.in_flight - 1)
                continue
            request = append_request(context, prev_index, log.term_at(prev_index), flush=False)
            entries = await self._read(Index(prev_index + 1))
            if not entries:
                # The start of the log has moved.
                follower.lose_place()
                return
            if not await self._is_admitted(entries) or self._lacks_state(entries[0].index):
                return
            # Nobody else sends what memory does not hold; but something may have been refused during the read. Without
            # this check the chunk would go to a follower whose log may end elsewhere.
            if self._goes_on() and follower.expects(prev_index + 1):
                self._send(request, entries, entries[-1].last_index)

    def _lacks_state(self, first: int) -> bool:
        """Whether the state goes before the entries from `first` on: records of them may be gone (RFC 0022, section 7).

        The follower's own state would become another one than that of the original entries (C5).
        """
        log = self._context.log
        return first <= log.dirty_index and self._follower.lacks_state(first, log.compacted_index)

    async def _is_admitted(self, entries: list[Entry] | None) -> bool:
        """Wait until the rates let a chunk pass; False: the recovery is over."""
        return not entries or await self._pace.admit(sum(entry.size for entry in entries), self._goes_on)

    def _may_hand_over(self, prev_index: Index) -> bool:
        """Whether memory holds the rest. While a rate bounds the recovery the rest must be one chunk, too: rounds are
        not bound, so a follower that is still far behind would get all that memory holds at once."""
        log = self._context.log
        if prev_index >= log.dirty_index:
            return True
        if not self._pace.is_bound:
            return log.recent(Index(prev_index + 1), 1) is not None
        rest = log.recent(Index(prev_index + 1), self._pace.chunk_bytes)
        return rest is not None and rest[-1].last_index >= log.dirty_index

    def _hand_over(self) -> None:
        context, follower = self._context, self._follower
        # R2: what is left is in memory, or nothing is left. The backlog reads only memory, and would find no entry.
        prev_index = follower.expected_log_end_index
        assert prev_index >= context.log.dirty_index or context.log.recent(Index(prev_index + 1), 1) is not None
        follower.on_handed_over()
        context.logger.debug("hands node %d over at %d", follower.node_id, follower.expected_log_end_index)
        is_asked_for = follower.flushed_index < context.state.last_asked_index
        sent_bytes = send_backlog(context, follower, owes_flush=is_asked_for and self._sent_since_flush > 0)
        self._pace.count(sent_bytes)
        self._count(sent_bytes)

    def _send(
        self, request: AppendEntriesRequest, entries: list[Entry], last: Index
    ) -> asyncio.Future[AppendEntriesReply]:
        context, after = self._context, Index(request.prev_index)
        request = behind(context, request, entries)
        # R1: what was read is what comes next, without a gap.
        assert not entries or entries[0].index == request.prev_index + 1
        if self._wants_flush(entries, last):
            request = append_request(context, Index(request.prev_index), Term(request.prev_term), flush=True)
        size = sum(entry.size for entry in entries)
        self._sent_since_flush = 0 if request.flush else self._sent_since_flush + size
        self._count(size)
        return send_append(context, self._follower, request, wire_buffers(entries), last, after=after)

    def _count(self, sent_bytes: int) -> None:
        context = self._context
        context.probe.recovery_bytes += sent_bytes
        if context.figures is not None:
            context.figures.recovery_bytes += sent_bytes

    def _wants_flush(self, entries: list[Entry], last: Index) -> bool:
        if not entries or self._follower.flushed_index >= self._context.state.last_asked_index:
            return False
        return last >= self._context.log.dirty_index or self._sent_since_flush >= _FLUSH_EVERY_BYTES

    @staticmethod
    async def _settle(future: asyncio.Future[AppendEntriesReply]) -> AppendEntriesReply | None:
        settled = asyncio.Event()
        future.add_done_callback(lambda _: settled.set())
        await settled.wait()
        if future.cancelled() or future.exception() is not None:
            return None
        return future.result()

    # -- snapshots ----------------------------------------------------------------------------------------------

    async def _install(self) -> bool:
        """The follower lacks the entry before the log start, or needs a state: send what the entries have come to."""
        context, follower = self._context, self._follower
        compacted = context.log.compacted_index
        snapshot = await context.log_state.take_snapshot()
        # A leader that was filled itself may have the mark of its own leader, and not the state yet that goes with it:
        # its commit index will reach that.
        if not self._is_current() or snapshot.applied_index < compacted:
            return False
        checksum = await snapshot_checksum(snapshot)
        if not self._is_current():
            return False
        if not await self._pace.is_known():
            return False
        start, state = snapshot.start, snapshot.state
        context.probe.snapshots_sent += 1
        context.logger.info(
            "sends node %d a snapshot of %d bytes, log start %d", follower.node_id, len(state), start.index
        )
        position = 0
        while True:
            chunk = state[position : position + self._pace.chunk_bytes]
            if not await self._pace.admit(len(chunk), self._is_current):
                return False
            request = InstallSnapshotRequest(
                *(context.link_name, self._term, start, snapshot.applied_index, snapshot.applied_term),
                *(position, len(state), checksum, snapshot.configuration, compacted),
            )
            if context.figures is not None:
                context.figures.recovery_bytes += len(chunk)
            reply = await self._settle(send_snapshot_chunk(context, follower, request, chunk))
            if reply is None or not self._is_current():
                return False
            position += len(chunk)
            if reply.status is AppendStatus.SUCCESS:
                follower.next_index_hint = start.index
                follower.state_index = max(follower.state_index, compacted)
                return True
            if reply.status is AppendStatus.DAMAGED:
                context.logger.warning("the snapshot reached node %d damaged: it is sent again", follower.node_id)
            if reply.status is not AppendStatus.ALIVE or position >= len(state):
                return False
