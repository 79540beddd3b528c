"""Each row of the seed RFC holds, and stops holding when its mechanism is switched off."""

import pytest

import tests.simulation.world.observer
from tests.simulation.known_bugs.known_bug import KnownBug
from tests.simulation.known_bugs.table import BUGS, HUNTED, plant
from tests.simulation.rows.row import Row
from tests.simulation.rows.table import ROWS

_WITH_BUGS = [(row, bug) for row in ROWS for bug in row.bugs]


@pytest.mark.parametrize("row", ROWS, ids=[row.number for row in ROWS])
def test_a_row_holds(row: Row) -> None:
    row.prove()


@pytest.mark.parametrize(("row", "bug"), _WITH_BUGS, ids=[f"{row.number}-{bug.name}" for row, bug in _WITH_BUGS])
def test_a_row_fails_without_its_mechanism(monkeypatch, row: Row, bug: KnownBug) -> None:
    # The proof itself must object, not an invariant or the founding before it.
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    plant(monkeypatch, bug.name)
    with pytest.raises(AssertionError):
        row.prove()


def test_every_planted_bug_is_hunted_or_belongs_to_a_row() -> None:
    assert set(BUGS) == set(HUNTED) | {bug for _, bug in _WITH_BUGS}
