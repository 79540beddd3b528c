"""What a leader makes of BUSY: an answer in the replier's term, nothing matched, and no new append before another one."""

from dataclasses import replace

import pytest

from model.ids import ConsistencyLevel, NodeId
from raft.append_entries_buffer import AppendEntriesBuffer
from raft.consensus import Consensus
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.messages import AppendEntriesReply, AppendEntriesRequest, AppendStatus, HeartbeatRequest
from raft.options import RaftOptions
from runtime.workers import Pool
from tests.unit.raft.message_wire import Message
from tests.unit.raft.stage import Stage

OPTIONS = RaftOptions(append_buffer_requests=1, election_jitter=0.0)


def _appends(source: int, *targets: int):
    """Wanted: the appends of one node to some others, and their answers."""

    def is_wanted(message: Message) -> bool:
        ends = (message.source, message.target)
        return isinstance(message.request, AppendEntriesRequest) and any(
            ends in ((source, target), (target, source)) for target in targets
        )

    return is_wanted


def _write(stage: Stage, name: str) -> None:
    stage.replicate(1, name, ConsistencyLevel.LEADER_ACK, 100, None, None)
    stage.settle()


def _with_full_buffers(stage: Stage, *nodes: int) -> None:
    """Node 1 leads; the next append to each of `nodes` is answered BUSY."""
    for node_id in stage.actors:
        stage.start(node_id)
    stage.elect(1)
    stage.wire.lose(lambda _: True)
    for node in nodes:
        stage.actors[node].workers.hold(Pool.APPEND)
    # One is being written, one fills the queue.
    for name in ("written", "queued"):
        _write(stage, name)
        stage.deliver(_appends(1, *nodes))
    stage.events.clear()


def _busy_replies(stage: Stage) -> list[str]:
    return [event for event in stage.events if "busy" in event]


def test_a_busy_answer_in_the_leaders_term_confirms_a_reader() -> None:
    with Stage(5, OPTIONS) as stage:
        _with_full_buffers(stage, 2, 3)
        stage.read(1, "r")
        stage.settle()
        _write(stage, "refused")
        stage.deliver(_appends(1, 2, 3))
        assert len(_busy_replies(stage)) == 2
        assert "r confirmed" in stage.events


def _replicas_have_joined_another_term() -> None:
    """Counterexample 35: two replicas that voted in term 2 are busy with appends of term 1."""
    with Stage(5, OPTIONS) as stage:
        _with_full_buffers(stage, 2, 3)
        for node in (2, 3):
            stage.call(lambda node=node: stage.replica(node).observe_term(2))
        stage.read(1, "r")
        stage.settle()
        _write(stage, "late")
        stage.deliver(_appends(1, 2, 3))
        assert "r confirmed" not in stage.events
        assert any("term 2 has begun" in event for event in stage.events)


def test_a_replica_of_a_newer_term_confirms_nobody_however_busy_it_is() -> None:
    _replicas_have_joined_another_term()


def test_a_busy_replica_would_confirm_a_reader_if_busy_came_before_the_term(monkeypatch) -> None:
    whole = Consensus.on_append_entries

    def on_append_entries(consensus: Consensus, leader: NodeId, request: AppendEntriesRequest, entries):
        if consensus._buffer.is_busy:
            return AppendEntriesReply(request.term, AppendStatus.BUSY, 0, 0, 0)
        return whole(consensus, leader, request, entries)

    monkeypatch.setattr(Consensus, "on_append_entries", on_append_entries)
    with pytest.raises(AssertionError):
        _replicas_have_joined_another_term()


def _the_next_append_waits() -> None:
    with Stage(3, replace(OPTIONS, append_buffer_requests=256, unflushed_bytes=150)) as stage:
        for node_id in stage.actors:
            stage.start(node_id)
        stage.elect(1)
        stage.wire.lose(lambda _: True)
        stage.actors[2].workers.hold(Pool.FSYNC)
        for name in ("first", "second", "refused"):
            _write(stage, name)
            stage.deliver(_appends(1, 2))
            # The leader itself fsyncs.
            stage.advance(OPTIONS.flush_interval)
        follower = stage.replica(1).state.followers[NodeId(2)]
        assert len(_busy_replies(stage)) == 1
        assert follower.needs_recovery
        assert follower.expected_log_end_index == follower.match_index
        _write(stage, "skipped")
        for _ in range(3):
            stage.beat(1)
            stage.settle()
            stage.deliver(lambda message: isinstance(message.request, HeartbeatRequest))
        assert stage.wire.take(_appends(1, 2)) is None
        stage.call(lambda: stage.actors[2].workers.release(Pool.FSYNC))
        stage.settle()
        stage.beat(1)
        stage.settle()
        stage.deliver(lambda _: True)
        assert stage.replica(2).log.dirty_index == stage.replica(1).log.dirty_index
        assert not follower.needs_recovery


def _what_was_in_flight_says_nothing_of_room() -> None:
    """Two appends are in flight: the first is dropped as BUSY, the second refused for the gap, which is no room."""
    with Stage(3, replace(OPTIONS, append_buffer_requests=256, unflushed_bytes=150)) as stage:
        for node_id in stage.actors:
            stage.start(node_id)
        stage.elect(1)
        stage.wire.lose(lambda _: True)
        stage.actors[2].workers.hold(Pool.FSYNC)
        _write(stage, "first")
        stage.deliver(_appends(1, 2))
        for name in ("dropped", "refused"):
            # The leader itself fsyncs.
            stage.advance(OPTIONS.flush_interval)
            _write(stage, name)
        one_way = [message for message in stage.wire.in_flight if message.target == 2]
        stage.deliver(lambda message: message is one_way[0])
        stage.deliver(lambda message: message.reply is not None and message.source == 2)
        stage.call(lambda: stage.actors[2].workers.release(Pool.FSYNC))
        stage.settle()
        stage.deliver(lambda message: message is one_way[1])
        stage.deliver(lambda message: message.reply is not None and message.source == 2)
        assert len(_busy_replies(stage)) == 1
        assert any("gap" in event for event in stage.events)
        assert stage.wire.take(_appends(1, 2)) is None, "nothing is sent before it has said that it has room"
        stage.beat(1)
        stage.settle()
        stage.deliver(lambda _: True)
        assert stage.replica(2).log.dirty_index == stage.replica(1).log.dirty_index


def test_refusals_that_follow_a_busy_answer_begin_no_recovery() -> None:
    _what_was_in_flight_says_nothing_of_room()


def test_late_refusals_would_begin_a_recovery_if_any_answer_that_is_not_busy_did(monkeypatch) -> None:
    monkeypatch.setattr(FollowerIndexMetadata, "may_recover", True)
    with pytest.raises(AssertionError):
        _what_was_in_flight_says_nothing_of_room()


def test_after_a_busy_answer_the_next_append_waits_for_one_that_is_not() -> None:
    _the_next_append_waits()


def test_the_next_append_would_come_with_every_heartbeat_if_these_were_never_busy(monkeypatch) -> None:
    monkeypatch.setattr(AppendEntriesBuffer, "is_busy", False)
    with pytest.raises(AssertionError):
        _the_next_append_waits()
