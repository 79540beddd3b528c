"""Bytes that the followers of one node hold before they are in their logs: who finds room, and what is given back."""

import logging

import pytest

from model.ids import ConsistencyLevel
from raft.append_buffer_budget import AppendBufferBudget
from raft.messages import AppendEntriesRequest
from raft.options import RaftOptions
from runtime.workers import Pool
from tests.unit.raft.stage import Stage

_NODE_BYTES = 8_000
_SHARE = 1_000
_OPTIONS = RaftOptions(node_append_buffer_bytes=_NODE_BYTES, recovery_chunk_bytes=200, election_jitter=0.0)


def _others_take_all(budget: AppendBufferBudget) -> None:
    """Let other groups hold what partitions can hold."""
    while budget.bytes.try_acquire(_SHARE):
        pass


def _write(stage: Stage, name: str, size: int = 100) -> None:
    stage.replicate(1, name, ConsistencyLevel.LEADER_ACK, size, None, None)
    stage.settle()
    stage.deliver(lambda message: isinstance(message.request, AppendEntriesRequest))


def _led(stage: Stage) -> AppendBufferBudget:
    """Let node 1 lead; return the budget of node 2, which follows."""
    for node_id in stage.actors:
        stage.start(node_id)
    stage.elect(1)
    stage.deliver(lambda _: True)
    stage.events.clear()
    return stage.actors[2].limits.append_buffers


def test_a_group_holds_its_share_and_is_answered_busy_beyond_it() -> None:
    with Stage(2, _OPTIONS) as stage:
        budget = _led(stage)
        stage.actors[2].workers.hold(Pool.APPEND)
        for number in range(8):
            _write(stage, f"w{number}", 200)
        assert 0 < budget.bytes.taken <= _SHARE
        assert budget.refused > 0
        assert [event for event in stage.events if "busy" in event]
        stage.call(lambda: stage.actors[2].workers.release(Pool.APPEND))
        stage.settle()
        assert budget.bytes.taken == 0
        for _ in range(2):
            stage.beat(1)
            stage.settle()
            stage.deliver(lambda _: True)
        assert stage.replica(2).log.dirty_index == stage.replica(1).log.dirty_index


def test_a_request_that_is_larger_than_the_share_is_taken_alone() -> None:
    with Stage(2, _OPTIONS) as stage:
        budget = _led(stage)
        _write(stage, "large", 5 * _SHARE)
        assert stage.replica(2).log.dirty_index == stage.replica(1).log.dirty_index
        assert (budget.bytes.taken, budget.refused) == (0, 0)


def test_what_is_internal_finds_the_reserve_and_partitions_do_not() -> None:
    with Stage(2, _OPTIONS) as stage:
        budget = _led(stage)
        _others_take_all(budget)
        _write(stage, "refused")
        assert budget.refused == 1
        assert budget.has_room(_SHARE, 0, is_internal=True)
        assert not budget.has_room(1, 0, is_internal=False)
        assert stage.replica(2)._buffer.is_busy, "heartbeats say so"


def test_a_stop_in_the_middle_gives_back_what_was_held() -> None:
    with Stage(2, _OPTIONS) as stage:
        budget = _led(stage)
        stage.actors[2].workers.hold(Pool.APPEND)
        for name in ("being written", "queued"):
            _write(stage, name)
        assert budget.bytes.taken > 0
        stop = stage.replica(2)._end_fibers()
        stage.run(stop)
        assert budget.bytes.taken == 0


def test_refusals_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    with Stage(2, _OPTIONS) as stage, caplog.at_level(logging.WARNING):
        budget = _led(stage)
        _others_take_all(budget)
        stage.call(lambda: [budget.try_acquire(100, 0, is_internal=False) for _ in range(5)])
        stage.settle()
        stage.advance(61.0)
        stage.call(lambda: budget.try_acquire(100, 0, is_internal=False))
        stage.settle()
    lines = [record.getMessage() for record in caplog.records if "raft.append.buffer.node.max.bytes" in record.message]
    assert len(lines) == 2
    assert "5 were answered BUSY since" in lines[1]
