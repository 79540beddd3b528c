"""Counterexamples 15, 36 and 9a: the start of a log, its snapshot, and damage below the mark."""

import pytest

import raft.replica_opening
import tests.simulation.world.observer
from raft.rules.election import LogEnd
from tests.simulation.invariants.invariant import InvariantBrokenError
from tests.simulation.known_bugs.table import plant
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario
from tests.simulation.world.world import SimulationError

_SEGMENT_BYTES = 4096
# In a node's own step, or between two.
_OBJECTIONS = (SimulationError, InvariantBrokenError)


def _delete(story: Scenario, node_id: int, offset: int) -> None:
    """Delete the records below an offset at a leader, and run until it has."""
    partition = story.cluster.partition(node_id, story.group)
    story.world.run(story.machine(node_id), partition.delete_records(offset, story.machine(node_id).loop.time() + 30.0))


def _start(story: Scenario, node_id: int) -> int:
    return story.replica(node_id).log.start_offset


def _answered(story: Scenario, node_id: int, count: int, size: int) -> None:
    writes = story.written(node_id, QUORUM, count, size=size)
    story.wait(lambda: all(write.result is not None for write in writes))


def _deleted_before_a_failover(story: Scenario) -> None:
    old, new, away = story.leader, *story.followers
    story.connect([old, new])
    _answered(story, old, 12, 900)
    _delete(story, old, 9)
    story.wait(lambda: _start(story, new) == 9)
    story.connect([new, away])
    story.elect_into_office(new)
    assert _start(story, new) == 9
    story.wait(lambda: story.counts["snapshots installed"] > 0 and _start(story, away) == 9)
    story.converge()
    assert {_start(story, node_id) for node_id in story.world.nodes} == {9}


def test_deleted_records_stay_deleted_after_a_failover_and_an_absent_follower_returns() -> None:
    with Scenario(1, segment_bytes=_SEGMENT_BYTES) as story:
        _deleted_before_a_failover(story)


def test_a_start_that_each_replica_moves_by_itself_is_found(monkeypatch) -> None:
    plant(monkeypatch, "each_replica_deletes_by_itself")
    with Scenario(1, segment_bytes=_SEGMENT_BYTES) as story, pytest.raises(_OBJECTIONS) as found:
        _deleted_before_a_failover(story)
    assert "LogStarts" in str(found.value.__cause__ or found.value)


def test_a_leader_change_in_the_middle_of_an_install_leaves_the_follower_whole() -> None:
    with Scenario(2, segment_bytes=_SEGMENT_BYTES) as story:
        old, new, away = story.leader, *story.followers
        story.connect([old, new])
        _answered(story, old, 12, 900)
        _delete(story, old, 9)
        story.machine(away).disk.slow_factor = 200.0
        story.heal()
        story.wait(lambda: story.counts["snapshots installed"] > 0)
        assert _start(story, away) == 0, "it is being written"
        story.elect(new)
        story.machine(away).disk.slow_factor = 1.0
        story.wait(lambda: _start(story, away) == 9)
        _answered(story, new, 2, 100)
        story.converge()


@pytest.mark.parametrize("instant", range(0, 24, 3))
def test_a_crash_at_any_point_of_an_install_leaves_the_former_log_or_the_new_one(instant: int) -> None:
    with Scenario(3, segment_bytes=_SEGMENT_BYTES) as story:
        old, new, away = story.leader, *story.followers
        story.connect([old, new])
        _answered(story, old, 12, 900)
        _delete(story, old, 9)
        story.heal()
        story.wait(lambda: story.counts["snapshots installed"] > 0)
        left = instant

        def is_over() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        story.wait(is_over)
        story.lose_power(away)
        story.restart(away)
        story.converge()
        assert _start(story, away) == 9
        assert new in story.world.nodes


def _snapshots_behind_a_relaxed_tail(story: Scenario) -> None:
    leader = story.leader
    # Commit follows a flush behind: there is always a tail that is not committed.
    for _ in range(60):
        story.write(leader, LEADER, size=900)
        story.run_for(0.01)
    assert story.replica(leader).log.snapshot_index > 0
    story.kill(leader)
    story.restart(leader)
    story.converge()
    assert story.counts["snapshots seen"] > 0


def test_a_snapshot_is_as_of_a_committed_entry_however_far_the_log_reaches() -> None:
    with Scenario(4, segment_bytes=_SEGMENT_BYTES) as story:
        _snapshots_behind_a_relaxed_tail(story)


def test_a_snapshot_that_is_later_than_its_state_is_found(monkeypatch) -> None:
    plant(monkeypatch, "snapshot_is_later_than_its_state")
    with Scenario(4, segment_bytes=_SEGMENT_BYTES) as story, pytest.raises(_OBJECTIONS) as found:
        _snapshots_behind_a_relaxed_tail(story)
    assert "SnapshotsAreTrue" in str(found.value.__cause__ or found.value)


def damage_leaves_no_floor(patch: pytest.MonkeyPatch) -> None:
    """A replica that lost fsynced entries to damage votes as if it had never had them (counterexample 9a)."""

    async def raise_floor(kvstore, group, lost_end) -> LogEnd:
        return lost_end

    patch.setattr(raft.replica_opening, "raise_floor", raise_floor)


def _rot_of_what_one_other_holds(story: Scenario) -> None:
    """Entries are committed on two of three; they rot on one, and the other one is away."""
    old, rotten, away = story.leader, *story.followers
    story.connect([old, rotten])
    for _ in range(6):
        _answered(story, old, 1, 900)  # One flush each: the headers behind the damage tell how far it had come.
    segment = story.replica(rotten).log._segments[-1]
    story.kill(rotten)
    story.kill(old)
    story.machine(rotten).disk.rot(segment.path, segment.size // 2)
    story.candidates = None
    story.heal()
    story.restart(rotten)
    story.run_for(10.0)
    assert story.cluster.leader_of(story.group) is None, "nobody here has what was acknowledged"
    assert story.replica(rotten).state.is_refilling
    story.restart(old)
    story.wait(lambda: not story.replica(rotten).state.is_refilling)
    assert story.leader == old
    assert away in story.world.nodes
    story.converge()


def test_who_lost_acknowledged_entries_to_damage_elects_nobody_without_them_and_gets_them_back() -> None:
    with Scenario(5) as story:
        _rot_of_what_one_other_holds(story)


def test_a_damaged_replica_that_votes_like_any_other_is_found(monkeypatch) -> None:
    damage_leaves_no_floor(monkeypatch)
    # The first to object would be the one that sees what has rotted: here it is asked what follows from it.
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with Scenario(5) as story, pytest.raises(AssertionError, match="nobody here has what was acknowledged"):
        _rot_of_what_one_other_holds(story)
