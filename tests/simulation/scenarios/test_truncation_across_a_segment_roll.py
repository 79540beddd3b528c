"""A deposed leader cuts uncommitted entries over several segments and loses power in the middle of it."""

import errno

import pytest

from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario, Write
from tests.simulation.world.sim_disk import Operation
from tests.simulation.world.sim_switch import os_error

_SEGMENT_BYTES = 4096
# What the cut, the append of the successor's entries and their flush need; fewer, and the last cases wait in vain.
_OPERATIONS = 14


def _deposed(story: Scenario) -> tuple[int, list[Write], list[Write]]:
    """Return the deposed leader at the instant it begins to truncate, its own writes and its successor's."""
    old, new = story.leader, story.followers[0]
    kept = story.written(old, QUORUM, 3, size=500)
    story.wait(lambda: all(write.is_answered for write in kept))
    story.connect(story.followers)
    foreign = story.written(old, LEADER, 14, size=900)
    story.run_for(0.2)
    assert len(story.replica(old).log._segments) >= 4
    story.elect_into_office(new)
    kept += story.written(new, QUORUM, 3, size=900)
    story.wait(lambda: all(write.is_answered for write in kept))
    story.heal()
    story.wait(lambda: story.probe(old).truncations > 0)
    return old, foreign, kept


def _run_instants(story: Scenario, count: int) -> None:
    """Run to the end of the count-th instant from now."""
    left = count

    def is_over() -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    if count > 0:
        story.wait(is_over)


def _lose_power_at_operation(story: Scenario, node_id: int, count: int) -> list[str]:
    """Let the machine die at its count-th disk operation from now, in the middle of a job; return what it has done."""
    disk, done = story.machine(node_id).disk, []
    check = disk.check

    def dying(operation: Operation, path: str) -> None:
        if len(done) < count:
            done.append(operation)
            check(operation, path)
            return
        if story.cluster.is_up(node_id):
            story.world.after(0.0, lambda: story.cluster.is_up(node_id) and story.lose_power(node_id))
        raise os_error(errno.EIO)

    disk.check = dying
    story.wait(lambda: not story.cluster.is_up(node_id))
    disk.check = check
    return done


def _keeps_what_it_should(story: Scenario, foreign: list[Write], kept: list[Write]) -> None:
    story.converge()
    assert all(write.result is not None for write in kept)
    for node_id in story.world.nodes:
        assert all(story.holds(node_id, write) for write in kept)
        assert not any(story.holds(node_id, write) for write in foreign)


@pytest.mark.parametrize("operations", range(_OPERATIONS))
def test_power_is_lost_at_a_disk_operation_of_the_truncation(operations: int) -> None:
    with Scenario(31, segment_bytes=_SEGMENT_BYTES) as story:
        old, foreign, kept = _deposed(story)
        # The cut's own operations first, then those of the appends and flushes behind it.
        assert len(_lose_power_at_operation(story, old, operations)) == operations
        story.run_for(0.3)
        _keeps_what_it_should(story, foreign, kept)


@pytest.mark.parametrize("instant", range(0, 20, 2))
def test_power_is_lost_at_an_instant_of_the_truncation(instant: int) -> None:
    with Scenario(31, segment_bytes=_SEGMENT_BYTES) as story:
        old, foreign, kept = _deposed(story)
        _run_instants(story, instant)
        story.lose_power(old)
        story.run_for(0.3)
        _keeps_what_it_should(story, foreign, kept)


def test_without_a_power_loss_the_cut_ends_in_the_middle_of_the_first_segment_it_touches() -> None:
    with Scenario(31, segment_bytes=_SEGMENT_BYTES) as story:
        old, foreign, _ = _deposed(story)
        segments = len(story.replica(old).log._segments)
        story.wait(lambda: not any(story.holds(old, write) for write in foreign))
        assert len(story.replica(old).log._segments) < segments
        story.converge()
        assert story.counts["truncations"] == 1
