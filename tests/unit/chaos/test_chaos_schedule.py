"""Schedules: drawn from a seed alone, quiet at both ends, and never two faults of a kind at a time."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.chaos.errors import ChaosError
from raftka.chaos.schedule import COOL_DOWN_SECONDS, NEMESES, WARM_UP_SECONDS, Fault, Schedule, draw_schedule

_NAMES = st.lists(st.sampled_from(sorted(NEMESES)), min_size=1, unique=True)
_SEEDS = st.integers(0, 2**31)


@given(_SEEDS, _NAMES)
def test_a_schedule_is_its_seed(seed: int, names: list[str]):
    assert draw_schedule(seed, names, 2, "all") == draw_schedule(seed, names, 2, "all")


@given(_SEEDS, _NAMES, st.floats(1, 10))
def test_faults_leave_time_before_and_after_them(seed: int, names: list[str], minutes: float):
    schedule = draw_schedule(seed, names, minutes, "all")
    assert schedule.faults
    assert all(fault.nemesis in names for fault in schedule.faults)
    assert min(fault.at for fault in schedule.faults) >= WARM_UP_SECONDS
    assert max(fault.at + fault.seconds for fault in schedule.faults) <= minutes * 60 - COOL_DOWN_SECONDS + 0.01


@given(_SEEDS, _NAMES)
def test_one_nemesis_does_one_thing_at_a_time(seed: int, names: list[str]):
    schedule = draw_schedule(seed, names, 5, "all")
    for name in names:
        own = [fault for fault in schedule.faults if fault.nemesis == name]
        assert all(one.at + one.seconds < two.at for one, two in pairwise(own))


def test_a_short_run_has_a_fault_and_half_of_it_is_quiet():
    schedule = draw_schedule(1, ["kill"], 0.25, "all")
    assert len(schedule.faults) == 1
    assert schedule.faults[0].at + schedule.faults[0].seconds <= 12


@given(_SEEDS)
def test_at_acks_1_leaders_are_isolated_from_their_peers(seed: int):
    for fault in draw_schedule(seed, ["partition"], 3, "1").faults:
        assert (fault.kind, fault.target) == ("isolate-from-peers", "leader")


def test_a_schedule_can_be_read_again(tmp_path):
    schedule = draw_schedule(7, ["disk", "kill"], 3, "all")
    schedule.save(tmp_path / "schedule.json")
    assert Schedule.load(tmp_path / "schedule.json") == schedule


def test_what_is_no_schedule_is_named(tmp_path):
    (tmp_path / "schedule.json").write_text('{"seed": 1}')
    with pytest.raises(ChaosError, match=r"schedule\.json is not a schedule"):
        Schedule.load(tmp_path / "schedule.json")


@given(_SEEDS, _NAMES, st.floats(0.2, 3), st.sampled_from(["all", "1"]))
def test_every_nemesis_comes_however_short_the_run_is(seed: int, names: list[str], minutes: float, acks: str):
    assert {fault.nemesis for fault in draw_schedule(seed, names, minutes, acks).faults} == set(names)


@given(_SEEDS, st.floats(0.2, 3))
def test_bits_are_flipped_only_after_a_disk_was_full(seed: int, minutes: float):
    faults = draw_schedule(seed, ["disk", "kill"], minutes, "all").faults
    assert next(fault.kind for fault in faults if fault.nemesis == "disk") == "full"


@given(_SEEDS)
def test_where_there_are_no_partitions_no_segments_are_damaged(seed: int):
    faults = draw_schedule(seed, ["disk"], 5, "all", has_partitions=False).faults
    assert {fault.kind for fault in faults} == {"full"}


@pytest.mark.parametrize(
    ("nemesis", "kind", "target"), [("flood", "kill", "one"), ("kill", "run", "one"), ("kill", "kill", "none")]
)
def test_a_schedule_of_what_no_nemesis_does_is_refused(tmp_path, nemesis: str, kind: str, target: str):
    schedule = Schedule(1, 60.0, [Fault(10.0, 5.0, nemesis, kind, target)])
    schedule.save(tmp_path / "schedule.json")
    with pytest.raises(ChaosError, match="no nemesis does"):
        Schedule.load(tmp_path / "schedule.json")
