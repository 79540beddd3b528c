"""Row F13: groups at rest cost next to nothing. Counted in calls, not in seconds: the same on every machine."""

import sys
from pathlib import Path
from types import FrameType

import pytest

import raft.heartbeat_manager
from raft.group_heartbeats import GroupHeartbeats
from tests.simulation.world.cluster import ClusterOptions, SimCluster
from tests.simulation.world.world import World

_NODES = 3
_GROUPS = (60, 180)
_SECONDS = 2.0
# Half a core if each call of a function, Python's or C's, took 1.25 microseconds. With 1,000 groups a call took 0.2: a
# broker made 343,546 calls a second (the simulation's own among them) in 6.6 % of a core. To found so many takes too long
# here, so what they cost follows from two smaller numbers: the cost is linear.
_CALLS_MAX = 400_000
_WANTED = 1000
_ROOT = str(Path(__file__).parents[3])
_PACKAGES = tuple(f"{_ROOT}/{name}/" for name in ("raft", "rpc", "storage", "cluster", "runtime", "model"))


def _calls_per_second(groups: int) -> float:
    """Return how many functions a broker of so many idle groups calls in a second, on average over all brokers."""
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if event in ("call", "c_call") and frame.f_code.co_filename.startswith(_PACKAGES):
            calls += 1

    with World(3) as world:
        cluster = SimCluster(world, ClusterOptions(nodes=_NODES, partitions=groups, digests=False))
        # What the simulation itself looks at is no work of a broker.
        world.scheduler.observers.clear()
        cluster.found()
        world.run_until(world.time + 4.0)
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            world.run_until(world.time + _SECONDS)
        finally:
            sys.setprofile(before)
        world.check()
        assert all(cluster.leader_of(group) is not None for group in cluster.groups())
    return calls / _SECONDS / _NODES


def _idle_groups_cost_little() -> None:
    few, many = map(_calls_per_second, _GROUPS)
    per_group = (many - few) / (_GROUPS[1] - _GROUPS[0])
    assert per_group > 0
    assert few + (_WANTED - _GROUPS[0]) * per_group < _CALLS_MAX


def test_row_f13_a_thousand_idle_groups_take_less_than_half_a_core_of_a_broker() -> None:
    _idle_groups_cost_little()


def _groups_at_rest_are_beaten_in_every_interval(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupHeartbeats, "is_due", lambda heartbeats: True)


def _each_group_has_a_message_of_its_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(raft.heartbeat_manager, "_BEATS_MAX", 1)
    patch.setattr(raft.heartbeat_manager, "_UNANSWERED_MAX", 1_000_000)


@pytest.mark.parametrize("mutant", [_groups_at_rest_are_beaten_in_every_interval, _each_group_has_a_message_of_its_own])
def test_row_f13_fails_where_idle_groups_are_not_spared(monkeypatch, mutant) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        _idle_groups_cost_little()
