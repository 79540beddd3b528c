"""What the leader knows of one follower in its own term.

`expected_log_end_index` is shared by replicate_entries_stm and recovery_stm: the last index that has been sent in
order. Each of them, before it sends, checks that its entries directly follow that index, and advances it in the same
synchronous step. So the two never send a range twice nor leave a gap (RFC 0003 section 2; RFC 0004).

    in step     each request follows the one before, and none was refused: rounds send
    probing     a request was refused, dropped or lost, so the last shared entry is unknown: only recovery sends
    filling     the last shared entry is known again: recovery sends entries that are no longer in memory
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from model.ids import NO_INDEX, Index, NodeId
from raft.messages import AppendEntriesReply
from raft.recovery_trend import RecoveryTrend
from raft.rules.agreement import CopyPosition

# The loop time of what has not happened in this leadership.
NEVER = float("-inf")

# How finely the age of what a follower lacks is told: in parts of the time after which it is out of sync.
_MARKS_IN_LAG = 8
# More are not kept: a follower that is so far behind is out of sync in any case.
_MARKS_MAX = 2 * _MARKS_IN_LAG


@dataclass(slots=True)
class FollowerIndexMetadata:
    """Positions of one follower as this term's leader has learned them.

    Invariants:
        match_index only comes from successful replies.
        0 <= in_flight <= the window.
        is_probing implies needs_recovery; while is_probing only recovery_stm sends entries.
    """

    node_id: NodeId
    expected_log_end_index: Index
    match_index: Index = NO_INDEX
    dirty_index: Index = NO_INDEX
    flushed_index: Index = NO_INDEX
    last_reply_at: float = NEVER
    # When the first entry that it lacks became the first that was not committed; in-sync reporting goes by it. If it
    # lacks none that was so at its last answer: the time of that answer.
    caught_up_at: float = NEVER
    # It has held all that was committed at one moment, and not fallen out of step for long since: no bulk of a move.
    has_joined: bool = False
    # Commit indexes at earlier replies, and when those were, oldest first: whoever reaches one was caught up then.
    _marks: list[tuple[Index, float]] = field(default_factory=list)
    # The first entry that was not committed at the last reply, if there was one, and since which reply it is that.
    _head: Index = NO_INDEX
    _head_since: float = NEVER
    in_flight: int = 0
    # Requests of any kind are numbered from 1: the newest sent, and the newest answered in this leadership's term.
    sent_requests: int = 0
    answered_request: int = 0
    is_recovering: bool = False
    # From the first sign that it lags until recovery hands it back.
    needs_recovery: bool = False
    # ... and the part of that in which the last shared entry is not known: rounds skip it meanwhile.
    is_probing: bool = False
    # Where recovery looks first for the last shared entry: it asks for the one before.
    next_index_hint: Index = NO_INDEX
    # The first request whose answer lets recovery send again: after a loss or BUSY, one that was sent later.
    first_request_to_recover: int = 0
    # Up to which entry its state is known to include all, because it has taken the leader's (RFC 0022, section 7).
    state_index: Index = NO_INDEX
    # While its recovery is held to a rate: to which, for people.
    held_back_by: str = ""
    # Whether the leader's bound for learners was seen to be too low for it: it holds no more in this leadership.
    outgrows_bound: bool = False
    # Whether its recoveries bring it nearer.
    trend: RecoveryTrend = field(default_factory=RecoveryTrend)
    # When the log said last that the storage refused its recovery.
    refusal_logged_at: float = NEVER
    # Called whenever a request with entries (or a probe) has been answered or has failed: recovery waits for room.
    on_room: Callable[[], None] | None = None

    @property
    def position(self) -> CopyPosition:
        """What counts for agreement. A foreign tail behind `match_index` never does."""
        match, dirty, flushed = self.match_index, self.dirty_index, self.flushed_index
        return CopyPosition(min(match, dirty), min(match, flushed))

    def expects(self, first_index: int) -> bool:
        """Whether a request that starts at `first_index` is the next one in order."""
        return not self.is_probing and self.expected_log_end_index + 1 == first_index

    @property
    def may_recover(self) -> bool:
        """Whether it has shown, since the last loss or BUSY, that it takes appends: recovery may send to it."""
        return self.answered_request >= self.first_request_to_recover

    def on_success(self, reply: AppendEntriesReply) -> None:
        """Take a successful reply."""
        self.match_index = max(self.match_index, Index(reply.match))
        self.on_alive(reply)

    def update_caught_up(self, commit: Index, last: Index, now: float, lag_max: float) -> None:
        """Compare with the leader's positions after a reply.

        The time of an entry runs from when it became the first that is not committed (RFC 0003 section 5). A follower
        that lacks it is not caught up later than that, though it answers and lacks nothing else. Under load commit is
        always a little ahead of what the slower follower has answered; it was caught up when that was committed which
        it holds by now.

        Args:
            commit: The leader's commit index.
            last: The last entry of the leader's log.
            now: Loop time of the reply.
            lag_max: Seconds after which a follower is out of sync.
        """
        match, marks = self.match_index, self._marks
        head = Index(commit + 1) if commit < last else NO_INDEX
        if head != self._head:
            self._head, self._head_since = head, now
        if match >= commit:
            lacks_head = head != NO_INDEX and match == commit
            self.caught_up_at = max(self.caught_up_at, self._head_since) if lacks_head else now
            marks.clear()
            return
        while marks and marks[0][0] <= match:
            self.caught_up_at = max(self.caught_up_at, marks.pop(0)[1])
        if not marks or (len(marks) < _MARKS_MAX and now - marks[-1][1] >= lag_max / _MARKS_IN_LAG):
            marks.append((commit, now))

    def is_joined(self, oldest: float) -> bool:
        """Whether it came in sync, as Kafka's in-sync replicas do, and has stayed so since the loop time `oldest`.

        A new follower may be near what was committed some seconds ago, and still never reach what is committed now:
        unlike `caught_up_at` this needs one moment at which it held everything.
        """
        self.has_joined = self.has_joined and self.caught_up_at >= oldest
        return self.has_joined

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
        self.state_index = NO_INDEX
        self.lose_place()
        self.next_index_hint = Index(reply.match + 1)

    def on_lost_contact(self) -> None:
        """A request failed on the way, or was not taken: what the follower holds of it is unknown."""
        self.state_index = NO_INDEX
        self.lose_place()
        self.first_request_to_recover = self.sent_requests + 1

    def on_busy(self, number: int, *, is_append: bool) -> None:
        """Take BUSY, the answer to request `number`: an append was dropped, or would have been.

        No append is sent in vain: recovery waits for the answer to a later request.
        """
        if is_append:
            # Without a match in this term the shared prefix is still to be found, from the end on.
            self.lose_place(Index((self.match_index or self.expected_log_end_index) + 1))
            number = self.sent_requests
        self.first_request_to_recover = max(self.first_request_to_recover, number + 1)

    def lose_place(self, next_index: Index | None = None) -> None:
        """What it holds for certain ends at `match_index`: recovery looks for the last shared entry.

        Args:
            next_index: Where it looks first, if it does not look already; default: behind what was sent last.
        """
        if not self.is_probing:
            self.next_index_hint = Index(self.expected_log_end_index + 1) if next_index is None else next_index
        self.needs_recovery = self.is_probing = True
        self.expected_log_end_index = self.match_index

    def on_left_behind(self) -> None:
        """It lacks entries that are no longer in memory; where its log ends is known."""
        self.needs_recovery = True

    def on_place_found(self) -> None:
        """It holds everything that was sent: what follows may be sent."""
        assert self.needs_recovery
        assert self.match_index >= self.expected_log_end_index
        self.is_probing = False

    def on_handed_over(self) -> None:
        """Whatever it lacks is sent by the rounds and their backlog from now on."""
        assert not self.is_probing
        self.needs_recovery = False

    @property
    def owed_answers(self) -> int:
        """How many requests were sent since the last one that it has answered."""
        return self.sent_requests - self.answered_request

    def next_request(self) -> int:
        """Return the number of a request that is sent now."""
        self.sent_requests += 1
        return self.sent_requests

    def lacks_state(self, first: int, compacted: Index) -> bool:
        """Whether it needs the leader's state before the entries from `first` on: the log is compacted up to there."""
        return first <= compacted and self.state_index < compacted

    def check_may_send(self, prev_index: int, window: int) -> None:
        """Assert R1 and R4 (RFC 0004): what is sent now follows what was sent, and the window has room for it.

        Args:
            prev_index: The entry before those that are sent; of a placeholder, before its part that is new.
            window: Requests with entries that may be in flight to a follower.
        """
        assert self.is_probing or prev_index == self.expected_log_end_index, f"sends behind {prev_index}: {self}"
        assert self.in_flight < window, str(self)

    def on_sent(self) -> None:
        """A request with entries (or a probe) is on its way."""
        self.in_flight += 1

    def on_answered(self) -> None:
        """That request has ended, one way or the other."""
        assert self.in_flight > 0
        self.in_flight -= 1
        if self.on_room is not None:
            self.on_room()
