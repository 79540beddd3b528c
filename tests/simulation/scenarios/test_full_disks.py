"""RFC 0003 section 9: full disks stop producers and nothing else (counterexample 37)."""

import errno

import pytest

from model.ids import Offset
from raft.disk_reserve import DiskReserve
from raft.errors import StorageFullError
from raft.options import RaftOptions
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario, Write

_RESERVE = 256 * 1024
_SPARE = 100 * 1024
_OPTIONS = RaftOptions(disk_reserve_bytes=_RESERVE, replica_lag_max=2.0)


def _shrink(story: Scenario, node_ids: list[int], free_bytes: int) -> None:
    for node_id in node_ids:
        disk = story.machine(node_id).disk
        disk.capacity = disk.used + free_bytes


def _grow(story: Scenario) -> None:
    for node_id in story.world.nodes:
        story.machine(node_id).disk.capacity = 1 << 40


def _offer(story: Scenario, seconds: float) -> list[Write]:
    """Offer batches to whoever leads."""
    writes = []
    for _ in range(int(seconds * 50)):
        leader = story.cluster.leader_of(story.group)
        if leader is not None:
            writes.append(story.write(leader, QUORUM if len(writes) % 2 else LEADER, size=5000, within=2.0))
        story.run_for(0.02)
    return writes


def _read_from_the_beginning(story: Scenario) -> int:
    """Return how many batches the leader serves from offset 0 on."""
    partition = story.cluster.partition(story.leader, story.group)
    assert partition is not None
    return len(story.world.run(story.machine(story.leader), partition.fetch(Offset(0), 1 << 24)))


def _every_disk_is_full() -> None:
    with Scenario(201, raft=_OPTIONS) as story:
        leader = story.leader
        story.run_for(1.5)
        terms = [story.replica(node_id).term for node_id in story.world.nodes]
        kept = _offer(story, 0.5)
        story.candidates = None
        _shrink(story, list(story.world.nodes), _RESERVE + _SPARE)
        refused = _offer(story, 8.0)[-20:]
        story.wait(lambda: all(write.is_answered for write in refused), 3.0)
        assert all(isinstance(write.error, StorageFullError) for write in refused)
        assert story.leader == leader, "nobody has stepped down"
        assert [story.replica(node_id).term for node_id in story.world.nodes] == terms
        assert _read_from_the_beginning(story) > 0
        # A new leader finds room for its barrier, and refuses as well.
        story.machine(leader).loop.post(lambda: story.replica(leader).step_down("the story wants another one"))
        story.candidates = set()
        new = next(node_id for node_id in story.world.nodes if node_id != leader)
        story.elect_into_office(new)
        # Two rounds of heartbeats: the others have told it how full they are.
        story.run_for(0.3)
        write = story.write(new, QUORUM)
        story.wait(lambda: write.is_answered, 1.0)
        assert isinstance(write.error, StorageFullError)
        assert _read_from_the_beginning(story) > 0
        # Writing resumes by itself.
        _grow(story)
        story.run_for(1.5)
        kept.append(story.write(new, QUORUM))
        story.wait(lambda: all(write.is_answered for write in kept), 5.0)
        assert kept[-1].result is not None
        story.converge()
        assert all(story.holds(new, write) for write in story.writes if write.result is not None)


def test_full_disks_stop_producers_while_reads_and_elections_go_on() -> None:
    _every_disk_is_full()


def test_full_disks_stop_elections_if_nothing_is_kept_in_reserve(monkeypatch) -> None:
    monkeypatch.setattr(DiskReserve, "admits", lambda disk, quorums, is_up: True)
    with pytest.raises(AssertionError):
        _every_disk_is_full()


def _one_full_follower_is_not_a_majority() -> None:
    with Scenario(202, raft=_OPTIONS) as story:
        story.run_for(1.5)
        _shrink(story, story.followers[:1], _RESERVE - _SPARE)
        story.run_for(2.0)
        writes = _offer(story, 1.0)
        story.wait(lambda: all(write.is_answered for write in writes), 3.0)
        assert all(write.result is not None for write in writes)
        _shrink(story, story.followers, _RESERVE - _SPARE)
        story.run_for(2.0)
        write = story.write(story.leader, LEADER)
        story.wait(lambda: write.is_answered, 1.0)
        assert isinstance(write.error, StorageFullError), "the leader's own disk has room, but no majority has"
        _grow(story)
        story.run_for(2.0)
        story.converge()


def test_one_full_disk_of_three_stops_nobody_and_two_do() -> None:
    _one_full_follower_is_not_a_majority()


def test_two_do_not_where_nobody_says_how_full_he_is(monkeypatch) -> None:
    whole = DiskReserve.update_spare

    def update_spare(disk, node_id, spare_bytes) -> None:
        if node_id == disk._node_id:
            whole(disk, node_id, spare_bytes)

    monkeypatch.setattr(DiskReserve, "update_spare", update_spare)
    with pytest.raises(AssertionError):
        _one_full_follower_is_not_a_majority()


def _a_replica_without_any_room_does_not_stand() -> None:
    with Scenario(203, raft=_OPTIONS) as story:
        full, [other, _] = story.leader, story.followers
        story.run_for(1.5)
        _shrink(story, [full], 1000)
        write = story.write(full, QUORUM, size=5000)
        story.wait(lambda: write.is_answered, 1.0)
        assert isinstance(write.error, StorageFullError)
        term = story.replica(full).term
        # It alone may stand, and does not: every election would end at a barrier that it cannot write.
        story.candidates = {full}
        story.run_for(10.0)
        assert story.replica(full).term == term
        story.candidates = {full, other}
        story.wait(lambda: story.cluster.leader_of(story.group) == other, 5.0)
        kept = story.write(other, QUORUM)
        story.wait(lambda: kept.is_answered, 2.0)
        assert kept.result is not None
        _grow(story)
        story.run_for(1.5)
        story.machine(other).loop.post(lambda: story.replica(other).step_down("the story wants the first one"))
        story.elect_into_office(full)
        story.converge()


def test_a_replica_without_any_room_makes_way_and_does_not_stand() -> None:
    _a_replica_without_any_room_does_not_stand()


def test_terms_rise_where_it_stands_all_the_same(monkeypatch) -> None:
    monkeypatch.setattr(DiskReserve, "is_full", False)
    with pytest.raises(AssertionError):
        _a_replica_without_any_room_does_not_stand()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
def test_a_replica_alone_is_in_office_once_its_refused_barrier_can_be_written(error: int) -> None:
    with Scenario(204, nodes=1, raft=_OPTIONS) as story:
        kept = story.write(1, QUORUM)
        story.wait(lambda: kept.is_answered, 2.0)
        story.candidates = {1}
        # Its next two barriers are refused.
        for _ in range(2):
            story.machine(1).disk.fail_next("write", error=error, path_part=story.group.replace("/", "-"))
        story.machine(1).loop.post(lambda: story.replica(1).step_down("the story wants another term"))
        story.wait(lambda: story.cluster.leader_of(story.group) is None, 1.0)
        story.wait(lambda: story.cluster.leader_of(story.group) == 1, 20.0)
        assert not story.machine(1).disk._fail_next
        later = story.write(1, QUORUM)
        story.wait(lambda: later.is_answered, 2.0)
        assert later.error is None
        story.converge()
