"""Bugs in elections (Raft paper 5.2 and 5.4.1)."""

import msgspec
import pytest

import raft.vote_stm
import raft.voter
from model.ids import Index, NodeId
from raft.consensus import Consensus
from raft.messages import VoteReply, VoteRequest
from raft.replica_state import ReplicaState, Role
from raft.rules.election import LogEnd, refuse_reason
from raft.vote_store import PersistedVote, VoteStore, vote_key
from raft.voter import Voter

_LONGEST_LOG = LogEnd(1 << 60, 1 << 60)


def vote_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A vote is told before it is durable."""

    async def persist(votes: VoteStore) -> bool:
        context = votes._context
        vote = PersistedVote(context.state.term, context.state.voted_for)
        context.kvstore.put(vote_key(context.group), msgspec.msgpack.encode(vote))
        context.state.on_term_durable(context.state.term)
        return True

    patch.setattr(VoteStore, "persist", persist)


def terms_are_acted_in_before_they_are_durable(patch: pytest.MonkeyPatch) -> None:
    """A follower matches, commits and truncates in a term as soon as it has heard of it."""
    patch.setattr(ReplicaState, "is_term_durable", property(lambda state: True))
    patch.setattr(ReplicaState, "_require_durable_term", lambda state: None)


def heard_terms_are_never_persisted(patch: pytest.MonkeyPatch) -> None:
    """A follower keeps a term that it was not asked to vote in, in memory only."""
    terms_are_acted_in_before_they_are_durable(patch)
    patch.setattr(VoteStore, "start_persisting_term", lambda votes: None)


def term_and_vote_are_not_read_back(patch: pytest.MonkeyPatch) -> None:
    """A replica begins its next life without the term and the vote that it had stored."""
    patch.setattr(VoteStore, "load", lambda votes: PersistedVote(0, None))


def votes_go_to_any_log(patch: pytest.MonkeyPatch) -> None:
    """A voter does not compare the candidate's log with its own."""

    def refuse(voter, candidate, term, log_end, **asked):
        return refuse_reason(voter, candidate, term, _LONGEST_LOG, **asked)

    patch.setattr(raft.voter, "refuse_reason", refuse)


def voters_compare_with_what_they_know_as_committed(patch: pytest.MonkeyPatch) -> None:
    """A voter compares the candidate's log with its own up to its commit index only, which always lags."""

    def log_end(state: ReplicaState) -> LogEnd:
        if state.role is not Role.FOLLOWER:
            return LogEnd(state._log.pending_term, state._log.pending_index)
        return LogEnd(state._log.term_at(state.commit_index), state.commit_index)

    patch.setattr(ReplicaState, "log_end", property(log_end))


def the_longer_log_wins_whatever_its_terms(patch: pytest.MonkeyPatch) -> None:
    """Logs are compared by their length, not by their last term first."""

    def refuse(voter, candidate, term, log_end, **asked):
        same = max(voter.log_end.term, log_end.term)
        voter = voter._replace(log_end=LogEnd(same, voter.log_end.last_index))
        return refuse_reason(voter, candidate, term, LogEnd(same, log_end.last_index), **asked)

    patch.setattr(raft.voter, "refuse_reason", refuse)


def one_vote_elects(patch: pytest.MonkeyPatch) -> None:
    """A candidate does not wait for a majority of votes."""
    patch.setattr(raft.vote_stm, "has_majority", lambda quorums, granted: True)


def follower_forgets_its_vote(patch: pytest.MonkeyPatch) -> None:
    """A follower gives its vote of a term to whoever asks next."""
    whole_answer = Voter.answer

    async def answer(voter: Voter, candidate: NodeId, request: VoteRequest) -> VoteReply:
        state = voter._context.state
        if state.role is Role.FOLLOWER:
            state.voted_for = None
        return await whole_answer(voter, candidate, request)

    patch.setattr(Voter, "answer", answer)


def new_leader_cuts_its_tail(patch: pytest.MonkeyPatch) -> None:
    """A new leader begins with a log that holds only what it knows as committed."""
    begin_leadership = Consensus._begin_leadership

    async def cut(consensus: Consensus) -> None:
        async with consensus._context.op_lock:
            if consensus.log.dirty_index > consensus.state.commit_index:
                await consensus.log.truncate(Index(consensus.state.commit_index + 1))

    def begin(consensus: Consensus) -> None:
        consensus._gate.spawn(cut(consensus), name="cut")
        begin_leadership(consensus)

    patch.setattr(Consensus, "_begin_leadership", begin)
