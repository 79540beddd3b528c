"""Each row of the seed RFC holds, and stops holding when its mechanism is switched off."""

import pytest

import tests.simulation.world.observer
from tests.simulation.rows import mechanisms_off
from tests.simulation.rows.row import Mutant, Row
from tests.simulation.rows.table import ROWS

_WITH_MUTANTS = [(row, mutant) for row in ROWS for mutant in row.mutants]


@pytest.mark.parametrize("row", ROWS, ids=[row.number for row in ROWS])
def test_a_row_holds(row: Row) -> None:
    row.prove()


@pytest.mark.parametrize(
    ("row", "mutant"), _WITH_MUTANTS, ids=[f"{row.number}-{mutant.__name__}" for row, mutant in _WITH_MUTANTS]
)
def test_a_row_fails_without_its_mechanism(monkeypatch, row: Row, mutant: Mutant) -> None:
    # The proof itself must object, not an invariant or the founding before it.
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        row.prove()


def test_every_mutant_is_used() -> None:
    planted = {mutant for _, mutant in _WITH_MUTANTS}
    assert planted == {
        each for each in vars(mechanisms_off).values() if getattr(each, "__module__", "") == mechanisms_off.__name__
    }
