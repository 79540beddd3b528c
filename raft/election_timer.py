"""When a replica stands for election: deadlines, draws and retries around vote_stm (RFC 0003 section 7).

after hearing a leader            election_timeout + [0, election_jitter)
the link to the leader was reset  [0, reset_jitter): a killed leader is replaced in a few hundred milliseconds
the leader says it has stepped down  the same short draw
the leader hands over             at once, without a pre-vote (thesis 3.10)
at start, no leader heard yet     [reset_jitter, 3 * reset_jitter); where no link is up yet, again after a backoff
after a split or refused vote     [backoff, 2 * backoff) if no leader is heard, so that the eager do not collide
"""

from model.ids import NodeId
from raft.replica_context import ReplicaContext
from raft.replica_state import Role, voters_of
from raft.rules.agreement import has_majority
from raft.vote_stm import Outcome, VoteStm
from raft.vote_store import VoteStore

# How often in a row a candidate steps aside for a longer log before it stands itself: the other may be unable to win.
_WITHDRAWALS_MAX = 2


class ElectionTimer:
    """Owns the election deadline of one replica and what it last heard of a leader."""

    def __init__(self, context: ReplicaContext, votes: VoteStore) -> None:
        self._context = context
        self._deadline = context.node.deadlines.deadline(self._on_due)
        self._votes = votes
        self._heard_at: float | None = None
        self._is_standing = False
        self._is_stopped = False
        self._withdrawals = 0
        # Why the deadline was armed, for the log.
        self._reason = "no leader was heard since the start"

    def start(self, *, eager: bool) -> None:
        """Arm for the first time; `eager`: this replica is the one that should lead a new group."""
        rng, options = self._context.env.rng, self._context.options
        first = 0.0 if eager else options.reset_jitter + rng.uniform(0, 2 * options.reset_jitter)
        self._deadline.arm(self._context.now() + first)

    def stop(self) -> None:
        """Never stand again, whoever asks."""
        self._is_stopped = True
        self._deadline.disarm()

    @property
    def is_standing(self) -> bool:
        """Whether an election of this replica is under way."""
        return self._is_standing

    @property
    def hears_leader(self) -> bool:
        """A leader spoke within one election timeout, and the link to it has not been reset since."""
        heard_at = self._heard_at
        return heard_at is not None and self._context.now() - heard_at < self._context.options.election_timeout

    def heard_leader(self) -> None:
        """Any valid request of the current leader arrived. The deadline is moved when it is due, not each time."""
        # S1: who hears a leader does not lead itself. `follow` comes first, and refuses a second leader of a term.
        assert self._context.state.role is Role.FOLLOWER
        self._heard_at = self._context.now()
        self._withdrawals = 0
        if self._deadline.when is None:
            self.rearm()

    def rearm(self) -> None:
        """Wait a full election timeout from now (a leader was heard, or a vote was granted)."""
        self._deadline.arm(self._context.now() + self._context.options.election_timeout + self._draw())

    def _draw(self) -> float:
        return self._context.env.rng.uniform(0, self._context.options.election_jitter)

    def on_link_reset(self, node_id: NodeId) -> None:
        """A link to `node_id` was lost; if it is the leader, it may be dead."""
        state = self._context.state
        if state.role is not Role.FOLLOWER or state.leader_id != node_id:
            return
        self._lose_leader(f"the link to leader {node_id} was lost")

    def on_leader_gone(self, node_id: NodeId) -> None:
        """`node_id` leads no longer, by its own word."""
        state = self._context.state
        if state.role is Role.FOLLOWER and state.leader_id == node_id:
            self._lose_leader(f"leader {node_id} leads no longer, by its own word")

    def _lose_leader(self, reason: str) -> None:
        self._heard_at, self._reason = None, reason
        self._deadline.arm(self._context.now() + self._context.env.rng.uniform(0, self._context.options.reset_jitter))

    def stand_for_transfer(self) -> None:
        """The leader hands over to this replica: stand now, while it is still heard."""
        if self._is_stopped or self._is_standing:
            return
        assert self._context.state.role is Role.FOLLOWER
        self._deadline.disarm()
        self._is_standing = True
        self._context.gate.spawn(self._stand(is_transfer=True), name="election")

    def on_stepped_down(self) -> None:
        """The leader of this replica's term is gone or unknown: it was us."""
        # The leadership ends first: a leader that stood would vote against itself.
        assert not self._context.state.is_leader
        self._heard_at, self._reason = None, "it led until now"
        self.rearm()

    def _on_due(self) -> None:
        state = self._context.state
        # Without the last check a replica that hands its groups over before a stop would be elected again.
        if state.role in (Role.LEADER, Role.FAILED) or self._is_standing or self._is_stopped:
            return
        if self._heard_at is not None:
            patience = self._context.options.election_timeout + self._draw()
            if self._heard_at + patience > self._context.now():
                self._deadline.arm(self._heard_at + patience)
                return
            self._reason = f"leader {state.leader_id} was silent for {self._context.now() - self._heard_at:.1f} s"
        self._heard_at = None
        # Whoever asks here is not sent to a leader that this replica has lost, even if it cannot be the next itself.
        if state.leader_id is not None:
            self._context.effects.settle(state.lose_leader(self._reason))
        if not self._could_win():
            # Links are not up, or the disk would not take a barrier. A leader that reaches us will re-arm the deadline.
            self._retry()
            return
        # Section 7: whose leader is silent names none, and pre-votes for others from now on.
        assert state.leader_id is None
        self._is_standing = True
        self._context.gate.spawn(self._stand(is_transfer=False), name="election")

    def _could_win(self) -> bool:
        state, client = self._context.state, self._context.client
        if self._context.why_not_to_lead() is not None or not state.may_stand:
            return False
        up = {node for node in voters_of(state.commit_quorums) if node == state.node_id or client.is_up(node)}
        return has_majority(state.commit_quorums, up)

    async def _stand(self, *, is_transfer: bool) -> None:
        # One election at a time: two would enter two terms, and the first would count votes of a term that is over.
        assert self._is_standing
        stm = VoteStm(
            *(self._context, self._votes),
            reason="its leader hands over" if is_transfer else self._reason,
            may_withdraw=self._withdrawals < _WITHDRAWALS_MAX,
            is_transfer=is_transfer,
        )
        try:
            outcome = await stm.run()
        finally:
            self._is_standing = False
        self._withdrawals = self._withdrawals + 1 if outcome is Outcome.WITHDRAWN else 0
        state = self._context.state
        if state.role in (Role.LEADER, Role.FAILED):
            return
        if outcome is Outcome.OVERTAKEN or self.hears_leader:
            self.rearm()
        else:
            self._retry()

    def _retry(self) -> None:
        backoff = self._context.options.split_vote_backoff
        self._deadline.arm(self._context.now() + self._context.env.rng.uniform(backoff, 2 * backoff))
