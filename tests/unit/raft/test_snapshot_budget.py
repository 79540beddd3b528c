"""Snapshots on their way to the followers of a node have a bound together, and none is kept out for ever."""

import math

from raft.snapshot_budget import SnapshotBudget


class _Snapshot:
    """What a receiver keeps of a snapshot."""

    def __init__(self, budget: SnapshotBudget, size: int, now: float) -> None:
        self.is_given_up = False
        self.place = budget.try_begin(size, now, self._give_up)

    def _give_up(self) -> None:
        self.is_given_up = True


def test_snapshots_are_refused_beyond_the_bound_and_taken_again_below_it():
    budget = SnapshotBudget(100)
    first, second = _Snapshot(budget, 40, 0.0), _Snapshot(budget, 50, 0.0)
    assert first.place is not None
    assert second.place is not None
    assert _Snapshot(budget, 11, 1.0).place is None
    assert (budget.taken, budget.refused) == (90, 1)
    budget.end(first.place)
    budget.end(first.place)
    assert budget.taken == 50
    assert _Snapshot(budget, 11, 1.0).place is not None


def test_the_largest_snapshot_fits_beside_small_ones():
    budget = SnapshotBudget(100)
    assert _Snapshot(budget, 50, 0.0).place is not None
    assert _Snapshot(budget, 100, 0.0).place is not None
    assert _Snapshot(budget, 1, 0.0).place is None


def test_a_snapshot_whose_leader_has_died_gives_its_place_up():
    budget = SnapshotBudget(100)
    stuck, installing = _Snapshot(budget, 50, 0.0), _Snapshot(budget, 50, 0.0)
    assert installing.place is not None
    installing.place.used_at = math.inf
    assert _Snapshot(budget, 30, 9.9).place is None
    assert not stuck.is_given_up
    assert _Snapshot(budget, 30, 10.0).place is not None
    assert (stuck.is_given_up, installing.is_given_up) == (True, False)
    assert budget.taken == 80
