"""Each assert of a follower, a voter and a leader can fail: a state that must never be trips it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from model.ids import ConsistencyLevel, Index, NodeId, Term
from raft.append_dispatch import append_request, send_snapshot_chunk
from raft.append_entries_buffer import AppendEntriesBuffer, _Asked, _Queued
from raft.effects import LEADER_CHANGED
from raft.heartbeat_manager import HeartbeatManager
from raft.invariants import check_replica
from raft.messages import AppendEntriesRequest, Heartbeat, VoteRequest
from raft.options import RaftOptions
from raft.recovery_stm import RecoveryStm
from raft.replica_state import ReplicaState
from raft.replicate_batcher import ReplicateBatcher
from raft.replicate_entries_stm import ReplicateEntriesStm
from raft.replicate_item import NewEntry, ReplicateItem, ReplicateResult
from raft.rules.election import LogEnd
from raft.vote_stm import _Ballot
from raft.vote_store import VoteStore
from runtime.gate import Gate
from storage.entry import EntryKind
from storage.log import Log
from tests.simulation.world.world import SimulationError
from tests.unit.raft.message_wire import WireClient
from tests.unit.raft.stage import GROUP, Stage, entries_after

LEADER, FOLLOWER = 1, 2


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Node 1 leads nodes 2 and 3; nothing is in flight."""
    with Stage(3, RaftOptions(election_jitter=0.0)) as made:
        for node_id in made.actors:
            made.start(node_id)
        made.elect(LEADER)
        yield made


@contextmanager
def trips() -> Iterator[None]:
    """An assert fails in the call itself, and not in what follows from it."""
    with pytest.raises(AssertionError) as raised:
        yield
    assert not isinstance(raised.value, SimulationError)


def on_loop(stage: Stage, function: Callable[[], Any]) -> Any:
    """Call a function on the nodes' loop; what it raises is raised here."""

    async def call() -> Any:
        return function()

    return stage.run(call())


def request(term: int = 1, prev_index: int = 1) -> AppendEntriesRequest:
    return AppendEntriesRequest(GROUP, term, prev_index, 1, 0, 0, False)


def queued(units: int = 0) -> _Queued:
    """Return a request of the leader without entries; only on the loop."""
    asked = _Asked(NodeId(LEADER), request(), asyncio.get_running_loop().create_future())
    return _Queued(asked, (), units)


# -- a follower's appends -------------------------------------------------------------------------------------------


def test_the_bytes_of_a_request_are_not_given_back_twice(stage: Stage) -> None:
    buffer = stage.replica(FOLLOWER)._buffer
    # Another group of the node holds some.
    assert stage.actors[FOLLOWER].limits.append_buffers.bytes.try_acquire(1)
    with pytest.raises(AssertionError):
        on_loop(stage, lambda: buffer._release(queued(units=1)))


def test_a_second_drain_does_not_take_requests_while_the_first_writes(stage: Stage) -> None:
    buffer = stage.replica(FOLLOWER)._buffer

    async def drain() -> None:
        buffer._taken.append(queued())
        buffer._queue.append(queued())
        await buffer._drain()

    with pytest.raises(AssertionError):
        stage.run(drain())


def test_bytes_that_a_drain_keeps_are_noticed_at_its_end(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(AppendEntriesBuffer, "_release", lambda buffer, queued: None)
    stage.replicate(LEADER, "w", ConsistencyLevel.LEADER_ACK, 100, None, None)
    stage.settle()
    with pytest.raises(SimulationError):
        stage.deliver(lambda _: True)


def test_a_follower_appends_only_under_the_lock_of_its_log(stage: Stage) -> None:
    buffer = stage.replica(FOLLOWER)._buffer

    async def append() -> None:
        await buffer._append(queued())

    with pytest.raises(AssertionError):
        stage.run(append())


def test_a_follower_reports_no_match_that_it_has_not_written(stage: Stage, monkeypatch) -> None:
    async def write(buffer: AppendEntriesBuffer, *_: object) -> None:
        """Write nothing, while another term begins: the state itself notices nothing."""
        buffer._context.effects.observe_term(9)

    monkeypatch.setattr(AppendEntriesBuffer, "_write", write)
    stage.replicate(LEADER, "w", ConsistencyLevel.LEADER_ACK, 100, None, None)
    stage.settle()
    with pytest.raises(SimulationError):
        stage.deliver(lambda _: True)


# -- elections ------------------------------------------------------------------------------------------------------


async def _persist_nothing(_: VoteStore) -> bool:
    return True


async def _persist_and_forget_the_vote(votes: VoteStore) -> bool:
    state = votes._context.state
    state.on_term_durable(state.term)
    state.voted_for = None
    return True


def test_a_ballot_takes_one_reply_for_each_request(stage: Stage) -> None:
    ballot = _Ballot(stage.replica(FOLLOWER)._context, LogEnd(Term(1), Index(1)))

    def take() -> None:
        ballot._on_reply(NodeId(3))(asyncio.get_running_loop().create_future())

    with pytest.raises(AssertionError):
        on_loop(stage, take)


@pytest.mark.parametrize("persist", [_persist_nothing, _persist_and_forget_the_vote])
def test_a_candidate_asks_for_no_vote_before_its_own_is_durable(stage: Stage, monkeypatch, persist) -> None:
    monkeypatch.setattr(VoteStore, "persist", persist)
    stage.advance(stage.options.election_timeout)
    stage.wire.lose(lambda _: True)
    with pytest.raises(SimulationError):
        stage.elect(FOLLOWER)
    asked = [message.request for message in stage.wire.in_flight if isinstance(message.request, VoteRequest)]
    assert all(vote.pre for vote in asked)


def test_a_voter_tells_no_vote_that_is_not_durable(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(VoteStore, "persist", _persist_nothing)
    stage.advance(RaftOptions().election_timeout)
    with pytest.raises(AssertionError):
        stage.run(stage.replica(FOLLOWER).voter.answer(NodeId(3), VoteRequest(GROUP, 9, 9, 9, False)))


def test_a_candidate_does_not_lead_with_another_log_than_it_stood_with(monkeypatch) -> None:
    async def collect(ballot: _Ballot, *_: object, **__: object) -> None:
        log, term = ballot._context.log, ballot._context.state.term
        if term:
            await log.append(entries_after(log, log.dirty_index, [term]))

    monkeypatch.setattr(_Ballot, "collect", collect)
    with Stage(1, RaftOptions()) as stage, pytest.raises(SimulationError) as raised:
        stage.start(1)
    assert "leads with" in str(raised.value.__cause__)


def test_only_a_leader_says_that_it_steps_down(stage: Stage) -> None:
    with pytest.raises(AssertionError):
        stage.replica(FOLLOWER).voter.say_that_it_steps_down()


def test_a_leader_neither_hears_a_leader_nor_waits_for_one_nor_stands(stage: Stage) -> None:
    election = stage.replica(LEADER)._election
    for method in (election.heard_leader, election.on_stepped_down, election.stand_for_transfer):
        with pytest.raises(AssertionError):
            method()


def test_a_replica_stands_in_one_election_at_a_time(stage: Stage) -> None:
    with pytest.raises(AssertionError):
        stage.run(stage.replica(FOLLOWER)._election._stand(is_transfer=False))


def test_a_replica_that_stands_for_a_silent_leader_names_it_no_longer(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(ReplicaState, "lose_leader", lambda state, reason: LEADER_CHANGED)
    election = stage.replica(FOLLOWER)._election
    election._heard_at = None
    with pytest.raises(AssertionError):
        on_loop(stage, election._on_due)


# -- recovery and heartbeats ----------------------------------------------------------------------------------------


def recovery(stage: Stage) -> RecoveryStm:
    """Return a recovery of node 2 that has not begun to run."""
    leader = stage.replica(LEADER)
    follower = leader.state.followers[NodeId(FOLLOWER)]
    follower.on_left_behind()
    return RecoveryStm(leader._context, follower)


def test_a_recovery_waits_for_no_fewer_than_none_in_flight(stage: Stage) -> None:
    with trips():
        stage.run(recovery(stage)._until_in_flight(-1))


def test_a_recovery_sends_no_chunk_behind_a_gap(stage: Stage) -> None:
    stm, leader = recovery(stage), stage.replica(LEADER)
    asked = append_request(leader._context, Index(1), Term(1), flush=False)
    with pytest.raises(AssertionError):
        on_loop(stage, lambda: stm._send(asked, entries_after(leader.log, 2, [1]), Index(3)))


def test_a_recovery_hands_nobody_over_who_lacks_what_memory_lacks(stage: Stage, monkeypatch) -> None:
    stm = recovery(stage)
    stm._follower.expected_log_end_index = Index(0)
    monkeypatch.setattr(Log, "recent", lambda log, first, max_bytes: None)
    with pytest.raises(AssertionError):
        on_loop(stage, stm._hand_over)


def test_only_a_recovery_sends_snapshots(stage: Stage) -> None:
    leader: Any = stage.replica(LEADER)
    with pytest.raises(AssertionError):
        on_loop(stage, lambda: send_snapshot_chunk(leader._context, leader.state.followers[2], request(), b""))


def test_only_a_leader_takes_part_in_heartbeats(stage: Stage) -> None:
    assert stage.replica(LEADER).heartbeats.is_due()
    with pytest.raises(AssertionError):
        stage.replica(FOLLOWER).heartbeats.is_due()


def test_a_follower_judges_no_heartbeat_in_a_term_that_is_not_durable(stage: Stage) -> None:
    replica = stage.replica(FOLLOWER)
    replica.state.term = Term(2)
    with pytest.raises(AssertionError):
        replica.heartbeats.judge(Heartbeat(GROUP, 2, 0, 0, -1, 0))


def test_each_heartbeat_is_answered_once(stage: Stage) -> None:
    leader, disk = stage.replica(LEADER), stage.actors[LEADER].limits.disk
    manager = HeartbeatManager(WireClient(stage.wire, LEADER), stage.options, Gate("beats"), disk)
    stage.call(lambda: manager._dispatch([(leader, [NodeId(FOLLOWER)])]))
    stage.settle()
    manager._unanswered[NodeId(FOLLOWER)] = 0
    with pytest.raises(SimulationError):
        stage.deliver(lambda _: True)


# -- rounds ---------------------------------------------------------------------------------------------------------


def item(last_index: int | None = None) -> ReplicateItem:
    """Return a call of one entry, with a place if `last_index` is given; only on the loop."""
    made = ReplicateItem([NewEntry(EntryKind.COMMAND, b"c", 0)], ConsistencyLevel.LEADER_ACK, None)
    if last_index is not None:
        made.result = ReplicateResult(Index(last_index), Index(last_index), 0, Term(1))
    return made


def batcher(stage: Stage, node_id: int = LEADER) -> ReplicateBatcher:
    return stage.replica(node_id)._batcher


def test_a_call_takes_its_bytes_once(stage: Stage) -> None:
    def enqueue(held: int, units: int) -> None:
        made = item()
        made.units = held
        batcher(stage)._enqueue(made, units)

    for held, units in ((5, 5), (0, 0)):
        with trips():
            on_loop(stage, lambda held=held, units=units: enqueue(held, units))


def test_one_round_is_written_at_a_time(stage: Stage) -> None:
    async def flush() -> None:
        batcher(stage)._in_round = [item()]
        await batcher(stage)._flush()

    with pytest.raises(AssertionError):
        stage.run(flush())


@pytest.mark.parametrize(
    ("node_id", "last_index"), [(LEADER, None), (LEADER, 2), (FOLLOWER, 1)], ids=["no place", "not here", "no leader"]
)
def test_a_call_is_answered_only_by_a_leader_whose_log_holds_it(stage: Stage, node_id: int, last_index) -> None:
    on_loop(stage, lambda: batcher(stage)._resolve([item(1)]))
    with pytest.raises(AssertionError):
        on_loop(stage, lambda: batcher(stage, node_id)._resolve([item(last_index)]))


@pytest.mark.parametrize("node_id", [LEADER, FOLLOWER], ids=["without the lock", "without an office"])
def test_a_round_is_written_by_the_leader_under_the_lock_of_its_log(stage: Stage, node_id: int) -> None:
    replica = stage.replica(node_id)
    entries = entries_after(replica.log, replica.log.dirty_index, [1])
    stm = ReplicateEntriesStm(replica._context, replica._flusher, Term(1), entries, None)
    if node_id == FOLLOWER:
        stage.run(replica._context.op_lock.acquire())
    with pytest.raises(AssertionError):
        stage.run(stm.apply())


def test_a_round_that_is_not_written_as_a_whole_is_sent_to_nobody(stage: Stage, monkeypatch) -> None:
    whole = Log.append

    async def append(log: Log, entries) -> None:
        await whole(log, entries[:1])

    monkeypatch.setattr(Log, "append", append)
    for name in "ab":
        stage.replicate(LEADER, name, ConsistencyLevel.LEADER_ACK, 100, None, None)
    with pytest.raises(SimulationError):
        stage.settle()
    assert stage.wire.in_flight == []


# -- what always holds of one replica -------------------------------------------------------------------------------


def _forgets_its_term(state: ReplicaState) -> None:
    state.durable_term = Term(state.term - 1)


def _remembers_a_term_to_come(state: ReplicaState) -> None:
    state.durable_term = Term(state.term + 1)


def _waits_for_a_write(state: ReplicaState) -> None:
    state._asked.append((Index(1), Index(1)))


def _has_no_barrier(state: ReplicaState) -> None:
    state.barrier_index = Index(0)


def _does_not_wait_for_its_barrier(state: ReplicaState) -> None:
    state.barrier_index = Index(state.commit_index + 1)
    state._asked.clear()


@pytest.mark.parametrize(
    ("node_id", "damage"),
    [
        (LEADER, _forgets_its_term),
        (LEADER, _remembers_a_term_to_come),
        (LEADER, _has_no_barrier),
        (LEADER, _does_not_wait_for_its_barrier),
        (FOLLOWER, _remembers_a_term_to_come),
        (FOLLOWER, _waits_for_a_write),
    ],
)
def test_a_replica_with_a_wrong_state_is_noticed_at_the_end_of_the_step(stage: Stage, node_id: int, damage) -> None:
    state = stage.replica(node_id).state
    check_replica(state)
    damage(state)
    with pytest.raises(AssertionError):
        check_replica(state)
