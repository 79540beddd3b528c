"""What a node counts of its groups without being asked: calls, applies and entries, by level, role and kind."""

from collections.abc import Iterator

import pytest

from model.ids import ConsistencyLevel, Index, Offset, Term
from raft.call_figures import COUNTED_LEVELS, CallFigures
from raft.errors import RaftError
from raft.log_state import NoLogState
from raft.options import RaftOptions
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError
from storage.log_start import LogStart, encode_log_start
from tests.unit.raft.stage import Stage

QUORUM, LEADER, NOBODY = ConsistencyLevel.QUORUM_ACK, ConsistencyLevel.LEADER_ACK, ConsistencyLevel.NO_ACK
BARRIER, COMMAND, DATA, LOG_START = EntryKind.BARRIER, EntryKind.COMMAND, EntryKind.DATA, EntryKind.LOG_START
OPTIONS = RaftOptions(election_jitter=0.0)

Counts = dict[tuple[ConsistencyLevel, EntryKind], int]


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Two replicas without telemetry; node 1 leads."""
    with Stage(2, OPTIONS) as made:
        for node_id in made.actors:
            made.start(node_id)
        made.elect(1)
        made.deliver(lambda _: True)
        yield made


def calls(figures: CallFigures) -> Counts:
    """Return how many calls ended well, where any did."""
    found = {(level, kind): figures.replicate[level][kind].count for level in COUNTED_LEVELS for kind in EntryKind}
    return {place: count for place, count in found.items() if count}


def failures(figures: CallFigures) -> Counts:
    """Return how many calls failed, where any did."""
    failed = figures.replicate_failures
    found = {(level, kind): failed[level][kind] for level in COUNTED_LEVELS for kind in EntryKind}
    return {place: count for place, count in found.items() if count}


def applies(figures: CallFigures) -> dict[EntryKind, int]:
    return {kind: histogram.count for kind, histogram in figures.apply.items() if histogram.count}


def hand_over(
    stage: Stage, node_id: int, kind: EntryKind, payload: bytes, level: ConsistencyLevel, within: float | None = None
) -> None:
    """Call `replicate` with one entry; nobody looks at what comes of it."""

    def call() -> None:
        deadline = None if within is None else stage.world.time + within
        stage.replica(node_id).replicate([NewEntry(kind, payload, 0)], level, deadline=deadline)

    stage.call(call)
    stage.settle()


def write(stage: Stage, node_id: int, level: ConsistencyLevel, within: float | None = None) -> None:
    stage.replicate(node_id, "w", level, 200, None, within)
    stage.settle()


def test_calls_are_counted_by_level_and_kind_whether_telemetry_asks_or_not(stage: Stage):
    figures = stage.actors[1].call_figures
    assert calls(figures) == {(QUORUM, BARRIER): 1}
    write(stage, 1, LEADER)
    write(stage, 1, QUORUM)
    hand_over(stage, 1, COMMAND, b"c", QUORUM)
    hand_over(stage, 1, LOG_START, encode_log_start(start(stage)), QUORUM)
    stage.advance(0.5)
    stage.deliver(lambda _: True)
    assert calls(figures) == {
        (QUORUM, BARRIER): 1,
        (LEADER, DATA): 1,
        (QUORUM, DATA): 1,
        (QUORUM, COMMAND): 1,
        (QUORUM, LOG_START): 1,
    }
    assert figures.replicate[QUORUM][DATA].longest(stage.world.time) == pytest.approx(0.5)
    assert figures.replicate[LEADER][DATA].sum == 0.0
    assert failures(figures) == {}


def test_a_call_that_nobody_waits_for_is_in_no_figure(stage: Stage):
    before = calls(stage.actors[1].call_figures)
    write(stage, 1, NOBODY)
    write(stage, 2, NOBODY)
    stage.deliver(lambda _: True)
    for actor in stage.actors.values():
        assert failures(actor.call_figures) == {}
    assert calls(stage.actors[1].call_figures) == before


def test_a_call_that_is_refused_before_it_is_admitted_is_a_failure(stage: Stage):
    write(stage, 2, QUORUM)
    write(stage, 2, LEADER)
    hand_over(stage, 2, COMMAND, b"c", QUORUM)
    figures = stage.actors[2].call_figures
    assert failures(figures) == {(QUORUM, DATA): 1, (LEADER, DATA): 1, (QUORUM, COMMAND): 1}
    assert calls(figures) == {}


def test_a_call_that_misses_its_deadline_or_loses_its_leader_is_a_failure(stage: Stage):
    write(stage, 1, QUORUM, within=0.2)
    stage.advance(0.3)
    figures = stage.actors[1].call_figures
    assert failures(figures) == {(QUORUM, DATA): 1}
    write(stage, 1, QUORUM)
    stage.call(lambda: stage.replica(1).step_down("the test says so"))
    stage.settle()
    # The late one has ended before: it is counted once.
    assert failures(figures) == {(QUORUM, DATA): 2}


def test_a_replica_that_stops_or_hands_over_refuses_calls_and_counts_them(stage: Stage):
    consensus, figures = stage.replica(1), stage.actors[1].call_figures
    stage.transfer(1, 2)
    stage.settle()
    assert consensus.transfer.is_active
    write(stage, 1, QUORUM)
    assert failures(figures) == {(QUORUM, DATA): 1}
    stage.call(lambda: consensus.fail(RaftError("the test says so")))
    stage.settle()
    write(stage, 1, LEADER)
    assert failures(figures) == {(QUORUM, DATA): 1, (LEADER, DATA): 1}


def test_entries_are_counted_by_role_and_kind(stage: Stage):
    write(stage, 1, QUORUM)
    hand_over(stage, 1, COMMAND, b"c", QUORUM)
    stage.deliver(lambda _: True)
    leader, follower = (stage.actors[node_id].call_figures for node_id in (1, 2))
    for written, other in (
        (leader.appended_as_leader, leader.appended_as_follower),
        (follower.appended_as_follower, follower.appended_as_leader),
    ):
        assert {kind: each.entries for kind, each in written.items() if each.entries} == {
            BARRIER: 1,
            COMMAND: 1,
            DATA: 1,
        }
        assert written[DATA].bytes == written[DATA].bytes_max > 200
        assert not any(each.entries for each in other.values())


def test_entries_that_the_disk_refuses_are_no_entries(stage: Stage):
    stage.disk.capacity = stage.disk.used
    write(stage, 1, LEADER)
    figures = stage.actors[1].call_figures
    assert figures.appended_as_leader[DATA].entries == 0
    assert failures(figures) == {(LEADER, DATA): 1}


def test_applies_are_counted_by_kind_one_for_each_run_of_a_step(stage: Stage):
    before = applies(stage.actors[1].call_figures)
    assert before == {BARRIER: 1}
    # One round, and one commit of all of it: two runs of data around a command.
    for kind in (DATA, DATA, COMMAND, DATA):
        if kind is DATA:
            stage.replicate(1, "w", QUORUM, 200, None, None)
        else:
            stage.call(lambda: stage.replica(1).replicate([NewEntry(COMMAND, b"c", 0)], QUORUM))
    stage.settle()
    stage.deliver(lambda _: True)
    assert stage.replica(1).applied_index == stage.replica(1).log.dirty_index
    assert applies(stage.actors[1].call_figures) == {BARRIER: 1, DATA: 2, COMMAND: 1}


def test_a_run_that_is_cut_and_written_again_is_of_its_new_kind():
    with Stage(1, OPTIONS) as stage:
        stage.start(1)
        stage.elect(1)
        stepped = stage.replica(1)._log_state._stepped
        last = stepped.applied_index
        entry = entry_of(DATA, last + 1)
        stepped.note(entry)
        stepped.truncate(entry.index)
        stepped.note(entry_of(COMMAND, last + 1))
        stage.call(lambda: stepped.commit(Index(last + 1)))
        stage.settle()
        assert applies(stage.actors[1].call_figures) == {BARRIER: 1, COMMAND: 1}


class FailingState(NoLogState):
    """Refuses what it is to settle from entry 2 on."""

    def commit(self, index: Index) -> None:
        if index > 1:
            raise RuntimeError("a mistake of ours")


def test_an_apply_that_fails_is_counted_and_not_hidden():
    with Stage(1, OPTIONS, log_state=FailingState) as stage:
        stage.start(1)
        stage.elect(1)
        stepped = stage.replica(1)._log_state._stepped
        stepped.note(entry_of(COMMAND, 2))
        raised: list[BaseException] = []

        def commit() -> None:
            try:
                stepped.commit(Index(2))
            except RuntimeError as error:
                raised.append(error)

        stage.call(commit)
        stage.settle()
        assert [str(error) for error in raised] == ["a mistake of ours"]
        figures = stage.actors[1].call_figures
        assert figures.apply_failures[COMMAND] == 1
        assert applies(figures) == {BARRIER: 1}


def test_a_log_start_that_cannot_be_applied_is_counted_and_stops_the_replica(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    def refuse(_: LogStart) -> None:
        raise CorruptLogError("the test says so")

    monkeypatch.setattr(stage.replica(1).log, "advance_start", refuse)
    write(stage, 1, QUORUM)
    stage.deliver(lambda _: True)
    hand_over(stage, 1, LOG_START, encode_log_start(start(stage)), QUORUM)
    stage.deliver(lambda _: True)
    assert stage.actors[1].call_figures.apply_failures[LOG_START] == 1
    assert stage.replica(1).failure is not None


def start(stage: Stage) -> LogStart:
    """Return the start at the second entry, the first one behind the barrier."""
    return LogStart(Index(2), Offset(0), Offset(0), stage.replica(1).log.term_at(Index(1)))


def entry_of(kind: EntryKind, index: int) -> Entry:
    return Entry(Index(index), Term(1), kind, Offset(0), 0, b"c")
