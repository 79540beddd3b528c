"""What a replica notes of itself where somebody asks for it: durations by level, fsyncs, and what recovery sends."""

from collections.abc import Iterator

import pytest

from model.ids import ConsistencyLevel
from raft.interval_figures import IntervalFigures, TakenFigures
from raft.options import RaftOptions
from tests.unit.raft.stage import Stage

OPTIONS = RaftOptions(election_jitter=0.0, keeps_figures=True)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Three replicas that note figures; node 1 leads, and node 3 does not run."""
    with Stage(3, OPTIONS) as made:
        for node_id in made.actors:
            made.start(node_id)
        made.elect(1)
        made.stop(3)
        made.settle()
        yield made


def _take(stage: Stage, node_id: int) -> TakenFigures:
    figures = stage.replica(node_id).figures
    assert figures is not None
    return figures.take(stage.world.time)


def _write(stage: Stage, name: str, level: ConsistencyLevel, within: float | None = None) -> None:
    stage.replicate(1, name, level, 200, None, within)
    stage.settle()


def test_calls_are_counted_by_level_from_the_call_to_the_answer(stage: Stage):
    _take(stage, 1)
    _write(stage, "relaxed", ConsistencyLevel.LEADER_ACK)
    _write(stage, "safe", ConsistencyLevel.QUORUM_ACK)
    # The follower's answer takes half a second to come.
    stage.advance(0.5)
    stage.deliver(lambda _: True)
    taken = _take(stage, 1)
    assert taken.leader_ack is not None
    assert (taken.leader_ack.n, taken.leader_ack.max_us) == (1, 1)
    assert taken.quorum_ack is not None
    assert (taken.quorum_ack.n, taken.quorum_ack.max_us) == (1, 500_000)
    assert taken.fsync is not None


def test_a_follower_counts_its_own_fsyncs_and_no_calls(stage: Stage):
    _take(stage, 2)
    _write(stage, "safe", ConsistencyLevel.QUORUM_ACK)
    stage.deliver(lambda _: True)
    taken = _take(stage, 2)
    assert taken.fsync is not None
    assert (taken.quorum_ack, taken.leader_ack, taken.recovery_bytes) == (None, None, 0)


def test_what_nobody_waits_for_and_what_fails_is_not_counted(stage: Stage):
    _take(stage, 1)
    _write(stage, "thrown", ConsistencyLevel.NO_ACK)
    _write(stage, "late", ConsistencyLevel.QUORUM_ACK, within=0.2)
    stage.advance(0.3)
    assert any("late ReplicateTimedOutError" in event or "late failed" in event for event in stage.events), stage.events
    stage.deliver(lambda _: True)
    taken = _take(stage, 1)
    assert (taken.quorum_ack, taken.leader_ack) == (None, None)


def test_the_barrier_of_a_term_is_nobodys_call(stage: Stage):
    assert _take(stage, 1).quorum_ack is None


def test_what_recovery_sends_is_counted_at_the_leader(stage: Stage):
    for number in range(4):
        _write(stage, f"w{number}", ConsistencyLevel.LEADER_ACK)
    stage.call(lambda: stage.wire.lose(lambda message: message.target == 3))
    stage.deliver(lambda _: True)
    assert _take(stage, 1).recovery_bytes == 0
    stage.start(3)
    for _ in range(5):
        stage.beat(1)
        stage.settle()
        stage.deliver(lambda _: True)
    assert _take(stage, 1).recovery_bytes > 800


def test_without_the_option_nothing_is_kept():
    with Stage(1, RaftOptions(election_jitter=0.0)) as stage:
        stage.start(1)
        stage.elect(1)
        _write(stage, "w", ConsistencyLevel.QUORUM_ACK)
        assert stage.replica(1).figures is None
        assert stage.replica(1).log.health.fsync_durations is None


def test_an_interval_that_is_put_back_begins_where_it_began():
    figures = IntervalFigures(10.0)
    figures.quorum_ack.observe(0.001)
    figures.recovery_bytes = 5
    taken = figures.take(11.0)
    figures.recovery_bytes += 2
    figures.put_back(taken)
    again = figures.take(12.0)
    assert (again.since, again.quorum_ack, again.recovery_bytes) == (10.0, taken.quorum_ack, 7)
    assert figures.take(13.0) == TakenFigures(12.0, None, None, None, 0)
