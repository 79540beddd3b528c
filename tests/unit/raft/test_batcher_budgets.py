"""Bytes in the batchers of one node: what producers get, and what is kept for everything else."""

import asyncio
from collections.abc import Iterator

import pytest

from model.ids import ConsistencyLevel
from raft.options import RaftOptions
from raft.replicate_batcher import ReplicateBatcher
from raft.replicate_entries_stm import ReplicateEntriesStm
from raft.replicate_item import NewEntry
from runtime.byte_budget import ByteBudget, ReservedBudget
from runtime.workers import Pool
from storage.entry import EntryKind
from tests.unit.raft.stage import Stage

_NODE_BYTES = 8_000
_SHARE = 1_000


@pytest.fixture
def stage() -> Iterator[Stage]:
    """One voter on a node whose batchers may hold 8,000 bytes, 1,000 of them for anything but producers."""
    with Stage(1, RaftOptions(node_batcher_bytes=_NODE_BYTES)) as made:
        yield made


def _budget(stage: Stage) -> ReservedBudget:
    return stage.actors[1].limits.batcher_budget


def _others_take_all(stage: Stage) -> None:
    """Let the producers of other groups hold what producers can hold."""
    while _budget(stage).try_acquire(_SHARE):
        pass


def _command(stage: Stage, name: str, size: int = 10) -> None:
    def call() -> None:
        entry = NewEntry(EntryKind.COMMAND, b"c" * size, 0)
        stages = stage.replica(1).replicate([entry], ConsistencyLevel.QUORUM_ACK)
        stages.replicated.add_done_callback(lambda _: stage.events.append(f"{name} done"))

    stage.call(call)


def _produce(stage: Stage, name: str, size: int) -> None:
    stage.replicate(1, name, ConsistencyLevel.LEADER_ACK, size, None, None)


def _told(stage: Stage) -> list[str]:
    stage.settle()
    told, stage.events[:] = [event.split(":")[0] for event in stage.events], []
    return told


def _elections_and_commands_go_on(stage: Stage) -> None:
    _others_take_all(stage)
    stage.start(1)
    assert stage.replica(1).is_in_office, "its barrier has found room"
    _told(stage)
    _produce(stage, "held", 100)
    _command(stage, "command")
    assert _told(stage) == ["command done"]
    stage.call(lambda: _budget(stage).release(_SHARE))
    assert _told(stage) == ["held enqueued", "held done"]


def test_row_p15_what_is_no_producers_finds_the_reserve(stage: Stage) -> None:
    _elections_and_commands_go_on(stage)


def test_row_p15_fails_without_a_reserve(stage: Stage, monkeypatch) -> None:
    def has_room(budget: ReservedBudget, units: int, *, urgent: bool) -> bool:
        return budget.taken + units <= budget.limit

    monkeypatch.setattr(ReservedBudget, "_has_room", has_room)
    with pytest.raises(AssertionError):
        _elections_and_commands_go_on(stage)


def _a_group_holds_its_share_at_most(stage: Stage) -> None:
    stage.start(1)
    _told(stage)
    # The disk stands still: what has its bytes keeps them.
    stage.actors[1].workers.hold(Pool.APPEND)
    for number in range(10):
        _produce(stage, f"w{number}", 300)
    assert [told for told in _told(stage) if told.endswith("enqueued")] == ["w0 enqueued", "w1 enqueued", "w2 enqueued"]
    assert _budget(stage).taken == 900 <= _SHARE
    stage.call(lambda: stage.actors[1].workers.release(Pool.APPEND))
    assert _told(stage)[-1] == "w9 done"


def test_row_p15_no_group_holds_more_than_an_eighth(stage: Stage) -> None:
    _a_group_holds_its_share_at_most(stage)


def test_row_p15_fails_where_a_group_may_take_all(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(stage.actors[1].limits.batcher_budget, "share", _NODE_BYTES)
    with pytest.raises(AssertionError):
        _a_group_holds_its_share_at_most(stage)


def test_row_p14_units_come_back_with_the_write_and_none_is_lost(stage: Stage) -> None:
    stage.start(1)
    _told(stage)
    stage.actors[1].workers.hold(Pool.APPEND)
    for number in range(30):
        _produce(stage, f"w{number}", 300)
        _command(stage, f"c{number}")
    _produce(stage, "large", 3 * _NODE_BYTES)
    stage.settle()
    assert 0 < _budget(stage).taken <= _NODE_BYTES
    stage.call(lambda: stage.actors[1].workers.release(Pool.APPEND))
    assert len([told for told in _told(stage) if told.endswith("done")]) == 61
    assert _budget(stage).taken == 0


def test_row_p14_an_oversize_batch_takes_what_a_group_may_have(stage: Stage) -> None:
    stage.start(1)
    _told(stage)
    stage.actors[1].workers.hold(Pool.APPEND)
    _produce(stage, "large", 3 * _NODE_BYTES)
    _produce(stage, "small", 100)
    assert _told(stage) == ["large enqueued"]
    assert _budget(stage).taken == _SHARE
    stage.call(lambda: stage.actors[1].workers.release(Pool.APPEND))
    assert _told(stage) == ["large done", "small enqueued", "small done"]


def test_row_p14_fails_where_an_oversize_batch_waits_for_all_its_bytes(stage: Stage, monkeypatch) -> None:
    def try_acquire(budget: ReservedBudget, size: int, *, urgent: bool = False) -> int:
        if budget.taken + size > budget.limit:
            return 0
        budget.taken += size
        return size

    monkeypatch.setattr(ReservedBudget, "try_acquire", try_acquire)
    monkeypatch.setattr(ByteBudget, "try_acquire", lambda budget, size: size * (budget.taken + size <= budget._limit))
    stage.start(1)
    _told(stage)
    _produce(stage, "large", 3 * _NODE_BYTES)
    assert _told(stage) == []


def _units_are_free_once_a_round_is_dispatched() -> None:
    with Stage(3, RaftOptions(node_batcher_bytes=_NODE_BYTES)) as stage:
        for node_id in stage.actors:
            stage.start(node_id)
        stage.elect(1)
        for number in range(20):
            stage.replicate(1, f"w{number}", ConsistencyLevel.QUORUM_ACK, 300, None, None)
        stage.settle()
        assert stage.wire.in_flight, "the followers have been sent the rounds"
        assert not any("done" in event for event in stage.events), "and nobody has replied"
        assert stage.replica(1).log.dirty_index == 21
        assert _budget(stage).taken == 0


def test_row_p22_units_are_free_once_a_round_is_dispatched() -> None:
    _units_are_free_once_a_round_is_dispatched()


def test_row_p22_fails_where_a_round_keeps_them(monkeypatch) -> None:
    monkeypatch.setattr(ReplicateBatcher, "_release", lambda batcher, items: None)
    with pytest.raises(AssertionError):
        _units_are_free_once_a_round_is_dispatched()


def test_what_waits_for_the_node_keeps_its_order_and_its_deadline(stage: Stage) -> None:
    stage.start(1)
    _told(stage)
    _others_take_all(stage)
    stage.replicate(1, "first", ConsistencyLevel.LEADER_ACK, 200, None, 0.5)
    _produce(stage, "second", 100)
    _produce(stage, "third", 100)
    assert _told(stage) == []
    stage.advance(1.0)
    assert _told(stage) == ["first failed with ReplicateTimedOutError", "first enqueued"]
    stage.call(lambda: _budget(stage).release(100))
    stage.call(lambda: _budget(stage).release(_SHARE))
    assert _told(stage) == ["second enqueued", "third enqueued", "second done", "third done"]


def test_a_leader_that_steps_down_leaves_no_place_in_the_line(stage: Stage) -> None:
    stage.start(1)
    _others_take_all(stage)
    taken = _budget(stage).taken
    _produce(stage, "held", 100)
    _told(stage)
    stage.call(lambda: stage.replica(1).step_down("the test says so"))
    assert _told(stage)[0] == "held failed with LeadershipLostError"
    stage.call(lambda: _budget(stage).release(taken))
    stage.settle()
    assert _budget(stage).taken == 0


def test_a_replica_that_is_stopped_gives_everything_back(stage: Stage) -> None:
    stage.start(1)
    stage.actors[1].workers.hold(Pool.APPEND)
    for number in range(10):
        _produce(stage, f"w{number}", 300)
    stage.settle()
    assert _budget(stage).taken > 0
    stage.stop(1)
    stage.call(lambda: stage.actors[1].workers.release(Pool.APPEND))
    stage.advance(1.0)
    assert _budget(stage).taken == 0


def _unflushed_bytes_hold_producers(stage: Stage) -> None:
    stage.start(1)
    _told(stage)
    stage.actors[1].workers.hold(Pool.FSYNC)
    for number in range(8):
        _produce(stage, f"w{number}", 500)
        stage.settle()
    done = [told for told in _told(stage) if told.endswith("done")]
    assert done == ["w0 done", "w1 done", "w2 done", "w3 done"], "the bound is passed by one round at most"
    stage.call(lambda: stage.actors[1].workers.release(Pool.FSYNC))
    stage.advance(1.0)
    assert _told(stage)[-1] == "w7 done"


def test_a_leader_that_is_far_ahead_of_its_own_disk_holds_producers() -> None:
    with Stage(1, RaftOptions(unflushed_bytes=2_000, flush_bytes=1_000)) as stage:
        _unflushed_bytes_hold_producers(stage)


def test_a_leader_runs_on_without_the_bound(monkeypatch) -> None:
    monkeypatch.setattr(ReplicateBatcher, "_is_held", lambda batcher: False)
    with Stage(1, RaftOptions(unflushed_bytes=2_000, flush_bytes=1_000)) as stage, pytest.raises(AssertionError):
        _unflushed_bytes_hold_producers(stage)


def test_a_round_that_ends_in_a_mistake_of_ours_ends_everybodys_wait(stage: Stage, monkeypatch) -> None:
    async def apply(_: object) -> None:
        raise AssertionError("a mistake of ours")

    stage.start(1)
    _told(stage)
    reports: list[str] = []
    stage.call(
        lambda: asyncio.get_running_loop().set_exception_handler(lambda _, told: reports.append(str(told["exception"])))
    )
    monkeypatch.setattr(ReplicateEntriesStm, "apply", apply)
    _produce(stage, "w", 300)
    assert _told(stage) == ["w enqueued", "w failed with ShuttingDownError"]
    assert reports == ["a mistake of ours"], "the loop is told: this ends the broker"
    assert _budget(stage).taken == 0
