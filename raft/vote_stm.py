"""One election: pre-vote, then vote (Raft paper 5.2, 5.4.1; thesis 9.6).

The pre-vote persists nothing and raises no term: a replica that would lose disturbs nobody. After a majority of
pre-votes the candidate waits a little longer for voters whose link is up, and withdraws where one of them has a
longer log: that keeps more of what was acknowledged by fewer than a majority (leader_ack).
"""

import asyncio
from collections.abc import Callable
from enum import Enum

from model.ids import Index, NodeId, Term
from raft.client import RaftClient
from raft.messages import VoteReply, VoteRequest
from raft.replica_context import ReplicaContext
from raft.replica_state import Role
from raft.rules.agreement import has_majority
from raft.rules.election import LogEnd
from raft.vote_store import VoteStore


class Outcome(Enum):
    """How an election ended for the candidate."""

    WON = "won"
    REFUSED = "refused"  # the pre-vote did not find a majority, or an append of its own does not end
    WITHDRAWN = "withdrawn"  # a voter with a longer log answered: it should lead
    SPLIT = "split"  # the vote did not find a majority, or its own is not durable in time
    OVERTAKEN = "overtaken"  # another term or leader came first


class _Ballot:
    """Collects the replies of one round until a verdict, a deadline, or all have answered."""

    def __init__(self, context: ReplicaContext, own_end: LogEnd) -> None:
        self._context = context
        self._own_end = own_end
        self._quorums = context.state.commit_quorums
        configuration = context.state.configuration
        self._voters = sorted(voter for voter in configuration.replicas if configuration.is_voter(voter))
        self.granted = {context.state.node_id}
        self.longer_log: NodeId | None = None
        self._pending = 0
        self._changed = asyncio.Event()

    @property
    def is_won(self) -> bool:
        return has_majority(self._quorums, self.granted)

    async def collect(self, request: VoteRequest, *, longest_log: bool) -> None:
        """Ask all other voters that are up; return when the round is decided or its time is over."""
        client: RaftClient = self._context.client
        for voter in self._voters:
            node = voter.node_id
            # L9 of RFC 0020: the same node with another directory is no voter, and nobody asks it.
            if node == self._context.state.node_id or client.replica_of(node) != voter:
                continue
            self._pending += 1
            client.vote(node, request).add_done_callback(self._on_reply(node))
        options = self._context.options
        await self._wait(options.vote_timeout, lambda: self.is_won)
        if longest_log and self.is_won and self._pending:
            await self._wait(options.longest_log_wait, lambda: self.longer_log is not None)

    async def _wait(self, seconds: float, is_decided: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self._pending and not is_decided():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass

    def _on_reply(self, node: NodeId) -> Callable[[asyncio.Future[VoteReply]], None]:
        def on_done(future: asyncio.Future[VoteReply]) -> None:
            # Each voter that was asked answers once: the round ends with the last of them, not before.
            assert self._pending > 0
            self._pending -= 1
            self._changed.set()
            if future.cancelled() or future.exception() is not None:
                return
            reply = future.result()
            self._context.effects.observe_term(reply.term)
            if reply.granted:
                self.granted.add(node)
            if LogEnd(Term(reply.last_term), Index(reply.last_index)) > self._own_end:
                self.longer_log = node

        return on_done


class VoteStm:
    """One try of one replica to become leader."""

    def __init__(
        self,
        context: ReplicaContext,
        votes: VoteStore,
        *,
        reason: str,
        may_withdraw: bool,
        is_transfer: bool,
    ) -> None:
        self._context = context
        self._votes = votes
        # Why it stands, for the log.
        self._reason = reason
        self._may_withdraw = may_withdraw
        # The leader has asked for it (thesis 3.10): no pre-vote, and it may still be heard.
        self._is_transfer = is_transfer

    async def run(self) -> Outcome:
        """Stand once."""
        context, state = self._context, self._context.state
        if state.is_refilling or not state.may_stand:
            return Outcome.REFUSED
        context.probe.elections_started += 1
        # Our own appends finish or fail first: we stand with what is written (counterexample 32).
        if not await self._appends_end():
            return Outcome.REFUSED
        context.op_lock.release()
        term = state.term
        refusal = None if self._is_transfer else await self._pre_vote(term)
        if refusal is not None:
            return refusal
        if not await self._appends_end():
            return Outcome.REFUSED
        try:
            if (
                state.term != term
                or state.role is Role.FAILED
                or (state.leader_id is not None and not self._is_transfer)
                or not state.may_stand
            ):
                return Outcome.OVERTAKEN
            # Without the lock an append of the old leader could still fail, and voters would have compared their logs
            # with an end that this log never had (counterexample 32).
            state.become_candidate()
        finally:
            context.op_lock.release()
        context.logger.info("stands for election: %s; log ends at %d@%d", self._reason, *reversed(state.log_end))
        term = state.term
        try:
            # The vote for itself may become durable later, and stays given; nobody is asked for one before it is.
            async with asyncio.timeout(context.options.vote_timeout):
                is_durable = await self._votes.persist()
        except TimeoutError:
            context.logger.warning("does not stand: its vote is not durable within %g s", context.options.vote_timeout)
            return Outcome.SPLIT if self._still_stands(term) else Outcome.OVERTAKEN
        if not is_durable or not self._still_stands(term):
            return Outcome.OVERTAKEN
        # S8 and S9: a restart during the round must find this vote, or it could give a second one in the term.
        assert state.voted_for == state.node_id
        assert state.durable_term == term
        end = state.log_end
        ballot = _Ballot(context, end)
        await ballot.collect(self._request(term, pre=False), longest_log=False)
        # Without this check a candidate that was overtaken would lead a term for which nobody has elected it.
        if not self._still_stands(term):
            return Outcome.OVERTAKEN
        if not ballot.is_won:
            return Outcome.SPLIT
        _check_log_stands(end, state.log_end)
        elected = state.become_leader()
        context.probe.elections_won += 1
        context.logger.info("elected by nodes %s", sorted(ballot.granted))
        context.effects.settle(elected)
        return Outcome.WON

    async def _appends_end(self) -> bool:
        """Take op_lock once the appends before are over; False, and without it, where one of them takes too long."""
        try:
            async with asyncio.timeout(self._context.options.vote_timeout):
                await self._context.op_lock.acquire()
        except TimeoutError:
            self._context.logger.info("does not stand: an append of its own does not end")
            return False
        return True

    def _still_stands(self, term: Term) -> bool:
        state = self._context.state
        return state.role is Role.CANDIDATE and state.term == term

    async def _pre_vote(self, term: Term) -> Outcome | None:
        """Return why not to stand, or None to stand."""
        state = self._context.state
        ballot = _Ballot(self._context, state.log_end)
        await ballot.collect(self._request(Term(term + 1), pre=True), longest_log=self._may_withdraw)
        if state.term != term or state.leader_id is not None:
            return Outcome.OVERTAKEN
        if not ballot.is_won:
            return Outcome.REFUSED
        if ballot.longer_log is not None and self._may_withdraw:
            self._context.logger.info("withdraws: node %d has a longer log", ballot.longer_log)
            return Outcome.WITHDRAWN
        return None

    def _request(self, term: Term, *, pre: bool) -> VoteRequest:
        end = self._context.state.log_end
        return VoteRequest(self._context.link_name, term, end.last_index, end.term, pre, self._is_transfer)


def _check_log_stands(asked: LogEnd, now: LogEnd) -> None:
    """Assert S4's condition: voters have compared their logs with the end that the new leader still has."""
    assert asked == now, f"stood with a log that ends at {asked}, leads with {now}"
