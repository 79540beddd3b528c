"""Planted bugs are hunted by processes beside the one of the tests, which ask for what came of it one by one."""

from collections.abc import Callable, Iterator

import pytest

from tests.simulation.known_bugs.hunt import Hunt
from tests.simulation.known_bugs.hunts import pinned_hunts

_JOBS = 2


@pytest.fixture(scope="session")
def hunted(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Hunt]]:
    """Return what came of a hunt, by the name of the bug, or of the invariant that finds one alone.

    Those of all tests of this session that are going to ask are under way from the first one on.
    """
    names = [item.callspec.params["name"] for item in request.session.items if "hunted" in item.fixturenames]  # type: ignore[attr-defined]
    with pinned_hunts(names, _JOBS) as result_of:
        yield result_of
