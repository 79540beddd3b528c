"""One replica as a voter: whom it gives its vote, and what it takes from a leader that gives its office up.

vote, pre-vote    rules.election decides; a granted vote is durable before the reply
timeout_now       the leader hands over to this replica: it stands at once, without a pre-vote
stepped_down      the leader has given up by itself: it is not heard any more, as after a reset link
"""

import asyncio

from model.ids import Index, NodeId, Term
from raft.election_timer import ElectionTimer
from raft.messages import StepDownNotice, TimeoutNowReply, TimeoutNowRequest, VoteReply, VoteRequest
from raft.replica_context import ReplicaContext
from raft.replica_state import Role
from raft.rules.election import LogEnd, VoterView, refuse_reason
from raft.vote_store import VoteStore


class Voter:
    """See the module."""

    def __init__(self, context: ReplicaContext, votes: VoteStore, election: ElectionTimer) -> None:
        self._context = context
        self._votes = votes
        self._election = election
        self._is_leaving = False

    async def answer(self, candidate: NodeId, request: VoteRequest) -> VoteReply:
        """Take a (pre-)vote request; a granted vote is durable before this returns.

        One that is not durable in time is refused, and stays given: it may become durable later.
        """
        context, state = self._context, self._context.state
        reason = self._refuse_reason(candidate, request)
        if reason is not None:
            context.probe.votes_refused += 1
            context.logger.debug("refuses node %d in term %d: %s", candidate, request.term, reason)
            return self._reply(granted=False, reason=reason)
        if request.pre:
            return self._reply(granted=True, reason="")
        if state.is_leader:
            # It hands over, and votes too: its leadership ends in proper form first.
            context.effects.observe_term(request.term)
        # S8: `grant_vote` asserts that the vote is free.
        state.grant_vote(candidate, Term(request.term))
        self._election.rearm()
        try:
            async with asyncio.timeout(context.options.vote_timeout):
                is_durable = await self._votes.persist()
        except TimeoutError:
            context.probe.votes_refused += 1
            context.logger.warning("its vote for node %d is not durable yet, and not told", candidate)
            return self._reply(granted=False, reason="its vote is not durable yet")
        # Without this check a vote of a term that is over would be told with the new term, as if given in it.
        granted = is_durable and state.term == request.term and state.voted_for == candidate
        if granted:
            # S8: after a power loss between this answer and the sync, the voter would vote again in the same term.
            assert state.durable_term == request.term
            context.probe.votes_granted += 1
            context.logger.info("votes for node %d", candidate)
        return self._reply(granted=granted, reason="" if granted else "overtaken")

    def _refuse_reason(self, candidate: NodeId, request: VoteRequest) -> str | None:
        state = self._context.state
        if state.role is Role.FAILED:
            return "this replica has stopped"
        voter = VoterView(
            state.term,
            state.voted_for,
            state.log_end,
            state.is_leader or (self._election.hears_leader and state.leader_id != candidate),
            state.lost_end,
        )
        end = LogEnd(Term(request.last_term), Index(request.last_index))
        return refuse_reason(voter, candidate, Term(request.term), end, pre=request.pre, transfer=request.transfer)

    def _reply(self, *, granted: bool, reason: str) -> VoteReply:
        end = self._context.state.log_end
        return VoteReply(self._context.state.term, granted, end.last_index, end.term, reason)

    def on_timeout_now(self, leader: NodeId, request: TimeoutNowRequest) -> TimeoutNowReply:
        """Stand for election at once, if this replica can win it."""
        reason = self._stay_reason(leader, request)
        if reason is None:
            self._context.logger.info("node %d hands over", leader)
            self._election.stand_for_transfer()
        return TimeoutNowReply(self._context.state.term, reason is None, reason or "")

    def _stay_reason(self, leader: NodeId, request: TimeoutNowRequest) -> str | None:
        state, log = self._context.state, self._context.log
        if state.term != request.term or state.leader_id != leader or state.role is not Role.FOLLOWER:
            return f"does not follow node {leader} in term {request.term}"
        if self._is_leaving:
            return "is being stopped"
        if (flaw := self._context.why_not_to_lead()) is not None:
            return flaw
        if log.dirty_index < request.last_index:
            return f"log ends at {log.dirty_index}, the leader's at {request.last_index}"
        if not state.is_voter:
            return "is no voter"
        if state.is_refilling:
            return "gets back what damage took"
        if self._election.is_standing:
            return "stands for election already"
        return None

    def leave(self) -> None:
        """This replica will be stopped soon: it does not stand for election any more, and nobody hands over to it."""
        self._is_leaving = True
        self._election.stop()

    def say_that_it_steps_down(self) -> None:
        """Tell the followers; those that are not told, or not in time, stop hearing this leader all the same."""
        state = self._context.state
        # Of another node's term, the notice would make its followers stand against a leader that works.
        assert state.is_leader
        for node_id in state.followers:
            self._context.client.stepped_down(node_id, StepDownNotice(self._context.link_name, state.term))

    def on_leader_stepped_down(self, leader: NodeId, notice: StepDownNotice) -> None:
        """Hear the leader no longer."""
        if notice.term == self._context.state.term:
            self._election.on_leader_gone(leader)
