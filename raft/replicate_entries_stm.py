"""One round: append to self, send to the followers while the own fsync runs.

       batcher              this round                    followers
          |  entries, asked     |                              |
          |-------------------->| log.append                   |
          |                     |----- append_entries -------->|   only to those that expect exactly this range
          |<---- written -------|--- fsync (if asked) --       |
          |  leader_ack ends    |                     |        |
          |                     |<-- reply -----------|--------|
          |  quorum_ack ends when commit covers it (replication_monitor)

The leader_ack answer never waits for a follower. A follower whose window or link is full is skipped, and gets what it
has missed with its next answer (append_dispatch); one that lags is left to recovery. So one slow follower holds nobody
up, and costs no more memory than its link may hold.
"""

from collections.abc import Sequence

from model.ids import Index, Term
from raft.append_dispatch import append_request, is_right_replica, send_append, skips, wire_buffers
from raft.errors import LeadershipLostError
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.replica_context import ReplicaContext
from raft.replica_flusher import ReplicaFlusher
from raft.write_steps import Step
from storage.entry import Entry
from storage.errors import StorageError


class ReplicateEntriesStm:
    """The entries of one round in one term. Run under `op_lock`."""

    def __init__(
        self,
        context: ReplicaContext,
        flusher: ReplicaFlusher,
        term: Term,
        entries: Sequence[Entry],
        asked: tuple[Index, Index] | None,
    ) -> None:
        assert entries
        self._context = context
        self._flusher = flusher
        self._term = term
        self._entries = entries
        self._size = sum(entry.size for entry in entries)
        self._asked = asked

    async def apply(self) -> None:
        """Write the round and put it on the links.

        Raises:
            LeadershipLostError: The term ended meanwhile; the entries may or may not survive.
            StorageError: Not written (`RefusedError`), or the log is poisoned.
        """
        context = self._context
        # S1: only the leader of the term places its entries, one round after the other.
        assert self._still_leads()
        assert context.op_lock.locked()
        if self._asked is not None:
            context.state.ask_flush(*self._asked)
        try:
            with context.steps.under_way(Step.APPEND):
                await context.log.append(self._entries)
        except StorageError:
            if self._asked is not None and self._still_leads():
                context.state.withdraw_flush(self._asked[0])
            raise
        context.probe.rounds += 1
        context.probe.entries_appended += len(self._entries)
        context.counts.appended_as_leader(self._entries)
        size = self._size
        context.probe.bytes_appended += size
        context.limits.disk.count_appended(size)
        # Section 1: a round is in the log as a whole, with nothing behind it, before any follower gets a part of it.
        assert context.log.dirty_index == self._entries[-1].last_index
        # Without this check a deposed leader would send its entries in the name of the new term.
        if not self._still_leads():
            self._flusher.schedule_flush()
            raise LeadershipLostError(f"term {self._term} ended during the append")
        context.state.unreplicated.add_round(self._entries[-1].last_index, size)
        self._dispatch()
        if self._asked is not None:
            context.gate.spawn(self._flusher.flush(), name="flush-round")
        else:
            self._flusher.schedule_flush()
        context.effects.settle(context.state.advance())

    def _still_leads(self) -> bool:
        state = self._context.state
        return state.is_leader and state.term == self._term

    def _dispatch(self) -> None:
        context, entries = self._context, self._entries
        followers = [follower for follower in context.state.followers.values() if self._may_send_to(follower)]
        if not followers:
            return
        # C5 of RFC 0022: what is new was never compacted, so whoever is in step needs no state for it.
        assert entries[0].index > context.log.compacted_index
        prev_index = Index(entries[0].index - 1)
        request = append_request(context, prev_index, context.log.term_at(prev_index), flush=self._asked is not None)
        buffers = wire_buffers(entries)
        for follower in followers:
            send_append(context, follower, request, buffers, entries[-1].last_index)

    def _may_send_to(self, follower: FollowerIndexMetadata) -> bool:
        if not follower.expects(self._entries[0].index):
            return False
        if not is_right_replica(self._context, follower):
            follower.on_lost_contact()
            return False
        return not skips(self._context, follower, self._size)
