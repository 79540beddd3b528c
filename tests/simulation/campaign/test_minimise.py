"""A failing run becomes small, stays the same failure, and can be run again."""

import msgspec
import pytest

from tests.simulation.campaign.minimise import PassedError, kind_of, minimise
from tests.simulation.campaign.plan import Plan
from tests.simulation.campaign.run import run
from tests.simulation.known_bugs.table import plant

_SECONDS = 15.0


def test_what_a_failure_does_not_need_is_left_out(monkeypatch) -> None:
    plant(monkeypatch, "votes_go_to_any_log")
    plan = next(plan for plan in (Plan(seed, _SECONDS) for seed in range(1, 40)) if run(plan).error is not None)
    before = run(plan)
    small = minimise(plan, trials_max=60)
    assert kind_of(small.result) == kind_of(before)
    assert small.events < len(before.faults) + len(before.operations)
    # What is left is as much a run as the whole: in another process, from a file, it is the same.
    again = run(msgspec.json.decode(msgspec.json.encode(small.plan), type=Plan))
    assert (again.digest, again.error) == (small.result.digest, small.result.error)


def test_a_run_that_passes_has_nothing_to_leave_out() -> None:
    with pytest.raises(PassedError):
        minimise(Plan(2, 2 * _SECONDS))
