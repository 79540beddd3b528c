"""One group's part of the heartbeats: what its leader puts into them, and how a follower judges that.

full     while the follower is in step: names the last entry it should hold, and so finds out when it does not
light    while appends are in flight or recovery is at work: term, commit and visible only, so that a heartbeat that
         overtakes an append can neither fail the follower nor start a recovery

A group at rest, in which nothing has moved for a while and every follower holds everything, is beaten less often: with
a thousand groups on a node most are, and heartbeats would be most of its work.
"""

from model.ids import NO_INDEX, Index, NodeId, Term
from raft.append_dispatch import apply_reply
from raft.append_entries_buffer import AppendEntriesBuffer
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.messages import AppendEntriesReply, AppendStatus, Heartbeat
from raft.replica_context import ReplicaContext
from raft.rules.recovery import retry_index

# A group is at rest after so many ticks without a change, long after its followers were told of the last one.
_REST_AFTER_TICKS = 7


class GroupHeartbeats:
    """See the module."""

    def __init__(self, context: ReplicaContext, buffer: AppendEntriesBuffer) -> None:
        self._context = context
        self._buffer = buffer
        # Then it is beaten in every n-th tick.
        self._rest_every = context.options.rest_every
        # Where the group stood at the tick before, and for how many ticks now.
        self._stood_at: tuple[int, ...] = ()
        self._still_ticks = 0

    def on_options(self) -> None:
        """The node's options have changed: a group at rest may need more heartbeats."""
        self._rest_every = self._context.options.rest_every

    def is_due(self) -> bool:
        """Leader, once per tick: whether the group takes part in this tick."""
        state, dirty_index = self._context.state, self._context.log.dirty_index
        # S1: a heartbeat says who leads the term.
        assert state.is_leader
        stands_at = (state.term, state.commit_index, state.visible_index, dirty_index)
        is_still = stands_at == self._stood_at and all(
            follower.match_index >= dirty_index and not follower.needs_recovery for follower in state.followers.values()
        )
        self._stood_at = stands_at
        self._still_ticks = self._still_ticks + 1 if is_still else 0
        return self._still_ticks < _REST_AFTER_TICKS or self._still_ticks % self._rest_every == 0

    def beat_for(self, node_id: NodeId) -> Heartbeat | None:
        """Return this group's part of the next heartbeat to a node, None if we do not lead it there."""
        context, state = self._context, self._context.state
        follower = state.followers.get(node_id)
        if follower is None:
            return None
        prev_index, prev_term = -1, 0
        if follower.in_flight == 0 and not follower.needs_recovery:
            prev_index = follower.expected_log_end_index
            prev_term = context.log.term_at(follower.expected_log_end_index)
        return Heartbeat(context.link_name, state.term, state.commit_index, state.visible_index, prev_index, prev_term)

    def on_sent(self, node_id: NodeId) -> tuple[FollowerIndexMetadata, int]:
        """Return the follower on a node, and the number of the part that is sent to it now."""
        follower = self._context.state.followers[node_id]
        return follower, follower.next_request()

    def on_reply(self, follower: FollowerIndexMetadata, term: Term, number: int, reply: AppendEntriesReply) -> None:
        """Take the reply to the part `number`, sent in `term`.

        It is for the follower that was asked. A member that was removed and is one again is another follower: its
        requests are numbered anew, and its log may have begun anew, too (RFC 0019 section 5).
        """
        apply_reply(self._context, follower, term, number, reply, is_append=False)

    def judge(self, beat: Heartbeat) -> tuple[AppendStatus, Index]:
        """Return what a follower answers to the leader it has just heard, with the index of the reply."""
        log = self._context.log
        # S9: SUCCESS is counted as a match. In a term that a restart could forget the answer was BUSY.
        assert self._context.state.is_term_durable
        if self._buffer.is_busy:
            return AppendStatus.BUSY, NO_INDEX
        # Without the second check a heartbeat that overtakes an append would be refused for a gap, or match entries
        # that the append is about to replace.
        if beat.prev_index < 0 or log.pending_index != log.dirty_index:
            return AppendStatus.ALIVE, NO_INDEX
        prev_index = Index(beat.prev_index)
        if prev_index > log.dirty_index:
            return AppendStatus.GAP, log.dirty_index
        if prev_index >= log.start_index - 1 and log.term_at(prev_index) != beat.prev_term:
            return AppendStatus.TERM_MISMATCH, retry_index(log.term_at, log.start_index, prev_index)
        return AppendStatus.SUCCESS, prev_index
