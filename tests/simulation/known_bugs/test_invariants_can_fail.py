"""A checker must be able to fail: every invariant is shown a bug of the kind it is there for, alone, and objects."""

from collections.abc import Callable

import pytest

from tests.simulation.invariants import ALL
from tests.simulation.invariants.group_offsets import GroupOffsets
from tests.simulation.invariants.group_owners import GroupOwners
from tests.simulation.known_bugs.hunt import Hunt
from tests.simulation.known_bugs.invariants_alone import ALONE
from tests.simulation.known_bugs.table import BUGS


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [invariant.__name__ for invariant, _ in ALONE])
def test_an_invariant_objects(name: str, hunted: Callable[[str], Hunt]) -> None:
    found = hunted(name)
    assert found.seed is not None, f"it does not object: {found.others}"


def test_every_invariant_has_been_seen_to_fail() -> None:
    assert {invariant for invariant, _ in ALONE} == set(ALL)
    # Those of groups are told by the members, and look beside all others.
    assert {GroupOffsets.__name__, GroupOwners.__name__} <= {name for bug in BUGS for name in bug.objectors}
