"""RFC 0003 section 7: what is still being written counts for a voter, and not for a candidate (counterexamples 19, 32)."""

import asyncio
import copy

import pytest

import raft.vote_stm
from model.ids import Term
from raft.append_entries_buffer import AppendEntriesBuffer
from raft.messages import AppendEntriesReply
from raft.options import RaftOptions
from raft.replica_state import ReplicaState, Role
from raft.rules.election import LogEnd
from raft.vote_stm import VoteStm
from runtime.workers import Pool
from tests.simulation.invariants.invariant import InvariantBrokenError
from tests.simulation.scenarios.scenario import QUORUM, Scenario, _steer

_OPTIONS = RaftOptions(longest_log_wait=0.005)


def _tries_to_be_elected(story: Scenario, candidate: int, voter: int, seconds: float) -> None:
    """Let `candidate` stand again and again, while `voter` does not mind that it hears a leader."""
    story.candidates = {candidate}
    until = story.world.time + seconds
    while story.world.time < until and not story.replica(candidate).state.is_leader:
        for node_id in (candidate, voter):
            story.machine(node_id).spawn(_steer(story.replica(node_id), stands=node_id == candidate))
        story.run_for(0.02)
    story.candidates = set()


def _a_voter_is_still_writing() -> None:
    with Scenario(331, raft=_OPTIONS) as story:
        leader, [voter, candidate] = story.leader, story.followers
        [first] = story.written(leader, QUORUM)
        story.wait(lambda: first.is_answered)
        story.run_for(0.3)
        story.world.network.cut_both(leader, candidate)
        story.machine(voter).workers.stall(Pool.APPEND, 0.6)
        write = story.write(leader, QUORUM)
        log = story.replica(voter).log
        story.wait(lambda: log.pending_index > log.dirty_index)
        _tries_to_be_elected(story, candidate, voter, 0.5)
        story.wait(lambda: write.is_answered, 3.0)
        assert write.result is not None, "the voter's copy made it durable"
        story.converge()
        assert all(story.holds(node_id, write) for node_id in story.world.nodes)


def test_a_voter_counts_the_append_that_it_is_still_writing() -> None:
    _a_voter_is_still_writing()


def test_an_acknowledged_write_is_lost_where_it_does_not(monkeypatch) -> None:
    def answer(buffer: AppendEntriesBuffer, outcome) -> None:
        """Answer in the term of the request, whatever has happened since."""
        request, log = outcome.queued.request, buffer._context.log
        outcome.queued.reply.set_result(
            AppendEntriesReply(request.term, outcome.status, outcome.match, outcome.match, log.flushed_index)
        )

    written = property(lambda state: LogEnd(state._log.last_term, state._log.dirty_index))
    monkeypatch.setattr(ReplicaState, "log_end", written)
    monkeypatch.setattr(AppendEntriesBuffer, "_answer", answer)
    with pytest.raises((AssertionError, InvariantBrokenError)):
        _a_voter_is_still_writing()


def _a_candidate_is_still_writing() -> None:
    with Scenario(332, raft=_OPTIONS) as story:
        leader, [candidate, holder] = story.leader, story.followers
        [first] = story.written(leader, QUORUM)
        story.wait(lambda: first.is_answered)
        story.run_for(0.3)
        disk, workers = story.machine(candidate).disk, story.machine(candidate).workers
        workers.stall(Pool.APPEND, 1.0)
        write = story.write(leader, QUORUM)
        story.wait(lambda: write.is_answered)
        assert write.result is not None
        log = story.replica(candidate).log
        assert log.pending_index > log.dirty_index
        # The write will be refused, and nothing of it stay.
        capacity, disk.capacity = disk.capacity, disk.used
        story.kill(leader)
        _tries_to_be_elected(story, candidate, holder, 0.5)
        story.run_for(0.8)
        disk.capacity = capacity
        story.elect_into_office(holder)
        story.converge()
        assert all(story.holds(node_id, write) for node_id in story.world.nodes)


def test_a_candidate_stands_with_what_is_written() -> None:
    _a_candidate_is_still_writing()


def test_a_committed_entry_is_lost_where_it_stands_with_more(monkeypatch) -> None:
    whole_run = VoteStm.run

    async def run(stm: VoteStm):
        stm._context = copy.copy(stm._context)
        stm._context.op_lock = asyncio.Lock()
        return await whole_run(stm)

    def become_candidate(state: ReplicaState) -> None:
        state.adopt_term(Term(state.term + 1))
        state.role, state.voted_for = Role.CANDIDATE, state.node_id

    monkeypatch.setattr(VoteStm, "run", run)
    monkeypatch.setattr(ReplicaState, "become_candidate", become_candidate)
    # The product asserts that the log stands still: here the loss itself must show.
    monkeypatch.setattr(raft.vote_stm, "_check_log_stands", lambda asked, now: None)
    with pytest.raises((AssertionError, InvariantBrokenError)):
        _a_candidate_is_still_writing()
