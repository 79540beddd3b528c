"""What the leader knows of one follower in its own term.

`expected_log_end_index` is shared by replicate_entries_stm and recovery_stm: the last index that has been sent in
order. Whoever sends first checks that its entries are the next ones the follower expects, and moves it in the same
synchronous step; so the two never send a range twice nor leave a gap (RFC 0003 section 2; RFC 0004).
"""

from collections.abc import Callable
from dataclasses import dataclass

from model.ids import NO_INDEX, Index, NodeId
from raft.messages import AppendEntriesReply
from raft.rules.agreement import CopyPosition


@dataclass(slots=True)
class FollowerIndexMetadata:
    """Positions of one follower as this term's leader has learned them.

    Invariants:
        match_index only comes from successful replies.
        0 <= in_flight <= the window; while is_recovering only recovery_stm sends entries.
    """

    node_id: NodeId
    expected_log_end_index: Index
    match_index: Index = NO_INDEX
    dirty_index: Index = NO_INDEX
    flushed_index: Index = NO_INDEX
    last_reply_at: float = float("-inf")
    # When it last held everything that was committed then; in-sync reporting goes by it.
    caught_up_at: float = float("-inf")
    # The commit index at an earlier reply, and when that was: reached since, it was caught up then.
    _commit_then: Index = NO_INDEX
    _then: float = float("-inf")
    in_flight: int = 0
    # Requests of any kind are numbered from 1: the newest sent, and the newest answered in this leadership's term.
    sent_requests: int = 0
    answered_request: int = 0
    is_recovering: bool = False
    # Set from the first sign that the follower lags until recovery hands it back: rounds skip it meanwhile.
    needs_recovery: bool = False
    # Where recovery looks next.
    next_index_hint: Index = NO_INDEX
    # Called once when the last request in flight has been answered or has failed.
    on_idle: Callable[[], None] | None = None

    @property
    def position(self) -> CopyPosition:
        """What counts for agreement. A foreign tail behind `match_index` never does."""
        match = self.match_index
        return CopyPosition(min(self.dirty_index, match), min(self.flushed_index, match))

    def expects(self, first_index: int) -> bool:
        """Whether a request that starts at `first_index` is the next one in order."""
        return not self.needs_recovery and self.expected_log_end_index + 1 == first_index

    def on_success(self, reply: AppendEntriesReply) -> None:
        """Take a successful reply."""
        self.match_index = max(self.match_index, Index(reply.match))
        self.on_alive(reply)

    def note_caught_up(self, commit: Index, now: float) -> None:
        """Compare with the commit index after a reply at loop time `now`.

        Under load commit is always a little ahead of what the slower follower has answered; it is in sync all the
        same when it soon reaches what was committed then.
        """
        if self.match_index >= commit:
            self.caught_up_at = now
        elif self.match_index >= self._commit_then:
            self.caught_up_at = max(self.caught_up_at, self._then)
        else:
            return
        self._commit_then, self._then = commit, now

    def on_alive(self, reply: AppendEntriesReply) -> None:
        """Take the positions of a reply. Replies of one link arrive in the order they were computed in, and the
        follower reports only what it has matched with this term's leader, so the last one is the truth; it is
        lower than before where the follower lost un-fsynced entries.
        """
        self.dirty_index = Index(reply.dirty)
        self.flushed_index = Index(reply.flushed)

    def on_mismatch(self, reply: AppendEntriesReply) -> None:
        """Take a refusal: the follower's log is shorter or differs; after a power loss even below `match_index`.

        Lowering is always safe: commit and visible never go backwards by it.
        """
        self.on_alive(reply)
        self.match_index = min(self.match_index, self.dirty_index)
        self.next_index_hint = Index(reply.match + 1)
        self.needs_recovery = True

    def on_lost_contact(self) -> None:
        """A request failed on the way: what the follower holds of it is unknown."""
        if not self.needs_recovery:
            self.needs_recovery = True
            self.next_index_hint = Index(self.expected_log_end_index + 1)

    def on_busy(self) -> None:
        """It has dropped a request: what it holds for certain ends at `match_index`, and recovery begins there."""
        if not self.needs_recovery:
            self.needs_recovery = True
            # Without a match in this term the shared prefix is still to be found, from the end on.
            self.next_index_hint = Index((self.match_index or self.expected_log_end_index) + 1)
        self.expected_log_end_index = self.match_index

    @property
    def owed_answers(self) -> int:
        """How many requests were sent since the last one that it has answered."""
        return self.sent_requests - self.answered_request

    def next_request(self) -> int:
        """Return the number of a request that is sent now."""
        self.sent_requests += 1
        return self.sent_requests

    def on_sent(self) -> None:
        """A request with entries (or a probe) is on its way."""
        self.in_flight += 1

    def on_answered(self) -> None:
        """That request has ended, one way or the other."""
        assert self.in_flight > 0
        self.in_flight -= 1
        if self.in_flight == 0 and self.on_idle is not None:
            on_idle, self.on_idle = self.on_idle, None
            on_idle()
