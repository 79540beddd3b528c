"""What a replica notes of itself where somebody asks for it: durations by level, fsyncs, and what recovery sends."""

from collections.abc import Iterator

import pytest

from model.ids import ConsistencyLevel, Index, Offset, Term
from raft.call_figures import AppendedEntries, appended_by_kind
from raft.interval_figures import IntervalFigures, TakenFigures
from raft.options import RaftOptions
from storage.entry import HEADER_BYTES, Entry, EntryKind
from tests.unit.raft.stage import Stage

QUORUM, LEADER = ConsistencyLevel.QUORUM_ACK, ConsistencyLevel.LEADER_ACK
BARRIER, COMMAND, DATA, LOG_START = EntryKind.BARRIER, EntryKind.COMMAND, EntryKind.DATA, EntryKind.LOG_START
NO_CALLS: dict[ConsistencyLevel, dict[EntryKind, object]] = {QUORUM: {}, LEADER: {}}

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
    leader_ack, quorum_ack = taken.replicated(LEADER, DATA), taken.replicated(QUORUM, DATA)
    assert leader_ack is not None
    assert (leader_ack.n, leader_ack.max_us) == (1, 1)
    assert quorum_ack is not None
    assert (quorum_ack.n, quorum_ack.max_us) == (1, 500_000)
    assert taken.fsync is not None


def test_a_follower_counts_its_own_fsyncs_and_no_calls(stage: Stage):
    _take(stage, 2)
    _write(stage, "safe", ConsistencyLevel.QUORUM_ACK)
    stage.deliver(lambda _: True)
    taken = _take(stage, 2)
    assert taken.fsync is not None
    assert (taken.replicate, taken.replicate_failed, taken.recovery_bytes) == (NO_CALLS, NO_CALLS, 0)


def test_what_nobody_waits_for_is_not_counted_and_what_fails_is_counted_apart(stage: Stage):
    _take(stage, 1)
    _write(stage, "thrown", ConsistencyLevel.NO_ACK)
    _write(stage, "late", ConsistencyLevel.QUORUM_ACK, within=0.2)
    stage.advance(0.3)
    assert any("late ReplicateTimedOutError" in event or "late failed" in event for event in stage.events), stage.events
    stage.deliver(lambda _: True)
    taken = _take(stage, 1)
    assert (taken.replicate, taken.replicate_failed) == (NO_CALLS, {QUORUM: {DATA: 1}, LEADER: {}})


def test_the_barrier_of_a_term_is_no_call_of_a_producer(stage: Stage):
    taken = _take(stage, 1)
    assert taken.replicated(QUORUM, DATA) is None
    barrier = taken.replicated(QUORUM, BARRIER)
    assert barrier is not None
    assert barrier.n == 1


def test_entries_are_counted_in_the_role_in_which_they_were_written_by_kind(stage: Stage):
    for level in (QUORUM, LEADER):
        _write(stage, f"w{level}", level)
    stage.deliver(lambda _: True)
    led, followed = _take(stage, 1), _take(stage, 2)
    data, barrier = AppendedEntries(2, 2 * (200 + HEADER_BYTES), 200 + HEADER_BYTES), _barrier()
    assert (led.leader_appended, led.follower_appended) == ({BARRIER: barrier, DATA: data}, {})
    assert (followed.leader_appended, followed.follower_appended) == ({}, {BARRIER: barrier, DATA: data})
    assert _take(stage, 1).leader_appended == {}


def test_leader_and_follower_count_what_they_apply_by_kind(stage: Stage):
    _take(stage, 1), _take(stage, 2)
    _write(stage, "w", QUORUM)
    stage.move_start(1, 2, 0)
    stage.deliver(lambda _: True)
    stage.beat(1)
    stage.settle()
    stage.deliver(lambda _: True)
    for node_id in (1, 2):
        taken = _take(stage, node_id)
        assert {kind: each.n for kind, each in taken.apply.items()} == {DATA: 1, LOG_START: 1}
        assert taken.apply_failed == {}


def test_the_smallest_set_in_sync_is_seen_although_the_replica_is_back_when_somebody_looks(stage: Stage):
    stage.start(3)
    for _ in range(3):
        stage.beat(1)
        stage.settle()
        stage.deliver(lambda _: True)
    assert _in_sync(stage) == 3
    assert _take(stage, 1).in_sync_min is None
    # Node 3 stands still for longer than a replica in sync may; node 2 answers all the while.
    for _ in range(13):
        stage.advance(1.0)
        stage.beat(1)
        stage.settle()
        stage.deliver(lambda message: 3 not in (message.source, message.target))
        stage.call(lambda: stage.wire.lose(lambda message: 3 in (message.source, message.target)))
        stage.settle()
    assert _in_sync(stage) == 2
    for _ in range(5):
        stage.beat(1)
        stage.settle()
        stage.deliver(lambda _: True)
    assert _in_sync(stage) == 3
    assert _take(stage, 1).in_sync_min == 2
    assert _take(stage, 1).in_sync_min is None


def test_a_follower_that_a_new_leader_hears_for_the_first_time_was_not_away(stage: Stage):
    stage.start(3)
    for _ in range(3):
        stage.beat(1)
        stage.settle()
        stage.deliver(lambda _: True)
    assert _in_sync(stage) == 3
    assert _take(stage, 1).in_sync_min is None


def _in_sync(stage: Stage) -> int:
    async def look() -> int:
        return len(stage.replica(1).in_sync)

    return stage.run(look())


def _barrier() -> AppendedEntries:
    return AppendedEntries(1, HEADER_BYTES, HEADER_BYTES)


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
    figures.replicated(QUORUM, DATA, 0.001)
    figures.recovery_bytes = 5
    taken = figures.take(11.0)
    figures.recovery_bytes += 2
    figures.put_back(taken)
    again = figures.take(12.0)
    assert (again.since, again.replicate, again.recovery_bytes) == (10.0, taken.replicate, 7)
    assert figures.take(13.0) == TakenFigures(12.0, NO_CALLS, NO_CALLS, {}, {}, {}, {}, None, None, 0)


def test_an_interval_that_is_put_back_is_added_to_what_has_happened_since():
    def happen(figures: IntervalFigures, in_sync: int) -> None:
        figures.replicated(QUORUM, DATA, 0.001)
        figures.replicate_failed(LEADER, COMMAND)
        figures.applied(DATA, 0.002)
        figures.apply_failed(LOG_START)
        figures.appended_as_leader(appended_by_kind([_entry(10)]))
        figures.appended_as_follower(appended_by_kind([_entry(in_sync)]))
        figures.saw_in_sync(in_sync)

    figures = IntervalFigures(10.0)
    happen(figures, 2)
    taken = figures.take(11.0)
    happen(figures, 3)
    figures.put_back(taken)
    both = figures.take(12.0)
    assert both.replicate[QUORUM][DATA].n == both.apply[DATA].n == 2
    assert (both.replicate_failed[LEADER], both.apply_failed) == ({COMMAND: 2}, {LOG_START: 2})
    assert both.leader_appended == {DATA: AppendedEntries(2, 2 * (10 + HEADER_BYTES), 10 + HEADER_BYTES)}
    assert both.follower_appended == {DATA: AppendedEntries(2, 5 + 2 * HEADER_BYTES, 3 + HEADER_BYTES)}
    assert both.in_sync_min == 2


def _entry(size: int) -> Entry:
    return Entry(Index(1), Term(1), DATA, Offset(0), 1, bytes(size))
