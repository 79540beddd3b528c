"""Follower side of install_snapshot: collects the chunks of one snapshot and installs it (RFC 0008).

A leader sends a snapshot to a follower that lacks entries below the leader's log start. The snapshot holds that start,
and the state as of a committed entry. An incomplete snapshot is dropped when a chunk of another term or leader arrives.
A complete one is installed unless the term or the leader has changed before. If either changes during the install, the
install still goes to its end, because what the snapshot holds is committed; the answer is then STALE_TERM.

The leader sends the snapshot's checksum along, and the follower compares it before the install. Without this check, the
follower would write damaged bytes to its disk under a new, valid checksum (counterexample 45). If the snapshot is saved
in parts, each chunk has a checksum of its own, too: damage on the way is found before the rest has come.
"""

import asyncio
import math

from model.ids import Index, NodeId, Term
from raft.append_entries_buffer import follower_reply
from raft.errors import InvariantViolatedError
from raft.messages import AppendEntriesReply, AppendStatus, InstallSnapshotRequest
from raft.replica_context import ReplicaContext
from raft.snapshot_budget import IncomingPlace, SnapshotBudget
from raft.snapshot_chunks import open_chunk
from raft.write_steps import Step
from storage.errors import RefusedError, StorageError
from storage.snapshot_file import Snapshot, snapshot_checksum

_NO_INDEX = Index(0)


class _Incoming:
    """A snapshot on its way: its facts, its place in the node's budget, and as much of the state as has arrived."""

    def __init__(self, leader: NodeId, request: InstallSnapshotRequest, place: IncomingPlace) -> None:
        self.source = _source(leader, request)
        self.place = place
        self.state = bytearray()


class SnapshotReceiver:
    """See the module."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        self._incoming: _Incoming | None = None

    def receive(
        self, leader: NodeId, request: InstallSnapshotRequest, payload: bytes
    ) -> AppendEntriesReply | asyncio.Future[AppendEntriesReply]:
        """Take a chunk; after the last one the future ends once the snapshot is installed.

        A chunk that does not follow the ones before it, or is damaged, ends the transfer: the leader begins again.
        """
        if request.position == 0:
            if self._has_all(request):
                return follower_reply(self._context, AppendStatus.SUCCESS, Index(request.start.index - 1))
            self._begin(leader, request)
        incoming = self._incoming
        if incoming is None or incoming.source != _source(leader, request) or request.position != len(incoming.state):
            self.forget()
            return follower_reply(self._context, AppendStatus.BUSY, _NO_INDEX)
        chunk = open_chunk(request, payload)
        if chunk is None:
            self.forget()
            return self._refuse_damaged(leader, request.size, f"wrong checksum of the chunk at {request.position}")
        incoming.state += chunk
        incoming.place.used_at = self._context.now()
        if len(incoming.state) < request.size:
            return follower_reply(self._context, AppendStatus.ALIVE, _NO_INDEX)
        # Its place in the budget is given back with the answer, because its bytes are in memory until then.
        self._incoming = None
        state = bytes(incoming.state)
        snapshot = Snapshot(
            *(request.start, Index(request.applied_index), Term(request.applied_term), state, request.configuration)
        )
        reply: asyncio.Future[AppendEntriesReply] = asyncio.get_running_loop().create_future()
        self._context.gate.spawn(
            self._answer(leader, request, snapshot, reply, incoming.place), name="install-snapshot"
        )
        return reply

    def _has_all(self, request: InstallSnapshotRequest) -> bool:
        """Whether only a state was sent for entries that were compacted, and nothing of it is needed.

        Either the log has these entries, or the state includes them and the mark says so: whoever leads with a mark
        that is too low would send what no state can be derived from (C5).
        """
        compacted, commit = request.compacted_index, self._context.state.commit_index
        if not compacted or request.start.index > commit + 1:
            return False
        return compacted <= commit or compacted <= min(self._known, self._context.log.compacted_index)

    @property
    def _known(self) -> Index:
        """The last entry of which the state here knows, settled or noted."""
        return max(self._context.state.commit_index, self._context.log_state.applied_index)

    def forget(self) -> None:
        """Give up what has arrived of a snapshot: its leader begins again, or another one does."""
        if self._incoming is not None:
            self._budget.end(self._incoming.place)
            self._incoming = None

    @property
    def _budget(self) -> SnapshotBudget:
        return self._context.limits.snapshots

    def _begin(self, leader: NodeId, request: InstallSnapshotRequest) -> None:
        self.forget()
        if request.configuration and not self._context.node.configurations.is_open:
            self._context.node.configurations.open_soon()
            return  # Answered BUSY: it is sent again.
        place = self._budget.try_begin(request.size, self._context.now(), self.forget)
        if place is not None:
            self._incoming = _Incoming(leader, request, place)

    async def _answer(
        self,
        leader: NodeId,
        request: InstallSnapshotRequest,
        snapshot: Snapshot,
        reply: asyncio.Future[AppendEntriesReply],
        place: IncomingPlace,
    ) -> None:
        # It keeps its place however long the disk takes. If this task was cancelled before, the place expires by age.
        place.used_at = math.inf
        try:
            if await _is_as_sent(request, snapshot):
                answer = await self._install(leader, request, snapshot)
            else:
                answer = self._refuse_damaged(leader, request.size, "wrong checksum")
        except BaseException:
            reply.cancel()
            raise
        finally:
            self._budget.end(place)
        if not reply.done():
            reply.set_result(answer)

    def _refuse_damaged(self, leader: NodeId, size: int, why: str) -> AppendEntriesReply:
        self._context.probe.snapshots_damaged += 1
        self._context.logger.error(
            "a snapshot of %d bytes from node %d is damaged (%s): not installed, it is sent again",
            *(size, leader, why),
        )
        return follower_reply(self._context, AppendStatus.DAMAGED, _NO_INDEX)

    async def _install(self, leader: NodeId, request: InstallSnapshotRequest, snapshot: Snapshot) -> AppendEntriesReply:
        context, state = self._context, self._context.state
        match, term = Index(snapshot.start.index - 1), Term(request.term)
        async with context.op_lock:
            if state.term != term or state.leader_id != leader:
                return follower_reply(context, AppendStatus.STALE_TERM, _NO_INDEX)
            # A log that has committed that far has nothing to replace, and its state includes what is committed.
            if state.commit_index < max(match, request.compacted_index):
                try:
                    if request.compacted_index:
                        # C5: from the next chunk on there may be entries that no state can be derived from.
                        await context.log.raise_compacted(Index(request.compacted_index))
                    if state.commit_index < match or self._known < request.compacted_index:
                        await self._replace(snapshot)
                except RefusedError:
                    return follower_reply(context, AppendStatus.FAILED, _NO_INDEX)
                except (StorageError, InvariantViolatedError) as error:
                    context.fail(error)
                    return follower_reply(context, AppendStatus.FAILED, _NO_INDEX)
        if state.term != term or state.leader_id != leader:
            return follower_reply(context, AppendStatus.STALE_TERM, _NO_INDEX)
        # C5: the leader sends what it has compacted from here on.
        assert self._known >= request.compacted_index
        state.on_matched(match)
        return follower_reply(context, AppendStatus.SUCCESS, match)

    async def _replace(self, snapshot: Snapshot) -> None:
        context, state = self._context, self._context.state
        context.probe.snapshots_installed += 1
        if state.commit_index < snapshot.start.prev_index:
            context.logger.info(
                "installs a snapshot: the log starts at %d, was at %d", snapshot.start.index, context.log.dirty_index
            )
            # Under op_lock no append and no truncation changes the answer before the log installs the snapshot.
            is_log_kept = context.log.holds_entry_before(snapshot.start)
            state.on_installing(snapshot.start.index, is_log_kept=is_log_kept)
        else:
            context.logger.info(
                "takes a state as of entry %d: entries up to there were compacted", snapshot.applied_index
            )
        with context.steps.under_way(Step.APPEND):
            await context.log_state.install(snapshot)
        context.effects.settle(state.on_installed())


async def _is_as_sent(request: InstallSnapshotRequest, snapshot: Snapshot) -> bool:
    return await snapshot_checksum(snapshot) == request.checksum


def _source(leader: NodeId, request: InstallSnapshotRequest) -> tuple[object, ...]:
    said = (request.term, request.start, request.applied_index, request.applied_term, request.size, request.checksum)
    return (leader, *said, request.configuration, request.compacted_index)
