"""A checker must be able to fail: every invariant is shown a bug of the kind it is there for, alone, and objects."""

import pytest

from tests.simulation.invariants import ALL
from tests.simulation.invariants.group_offsets import GroupOffsets
from tests.simulation.invariants.group_owners import GroupOwners
from tests.simulation.known_bugs.hunt import SEEDS_MAX, hunt_alone
from tests.simulation.known_bugs.invariants_alone import ALONE
from tests.simulation.known_bugs.pins import first_seed, read_pins
from tests.simulation.known_bugs.table import BUGS

_PINS = read_pins()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("invariant", "plant"), ALONE, ids=[invariant.__name__ for invariant, _ in ALONE])
def test_an_invariant_objects(invariant, plant) -> None:
    first = first_seed(_PINS, invariant.__name__)
    found = hunt_alone(invariant, plant, range(first, first + SEEDS_MAX))
    assert found.seed is not None, f"it does not object: {found.others}"


def test_every_invariant_has_been_seen_to_fail() -> None:
    assert {invariant for invariant, _ in ALONE} == set(ALL)
    # Those of groups are told by the members, and look beside all others.
    assert {GroupOffsets.__name__, GroupOwners.__name__} <= {name for bug in BUGS for name in bug.objectors}
