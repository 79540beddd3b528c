"""P18 with 500 restarts: 50 in the row itself, the others here, each story with a seed, a link and a load of its own."""

from itertools import product

import pytest

from tests.simulation.rows.hand_over import BURST, ROUND_TRIPS, restart_followers_under_load

_FIRST_SEED = 1118
_RESTARTS = 50
# Three stories on the scenario's own links, and one for each link and load.
_STORIES = [(None, 1)] * 3 + list(product(ROUND_TRIPS, (1, BURST)))


@pytest.mark.parametrize(
    ("number", "round_trip", "burst"),
    # Each takes some ten seconds, so `make test` has one of them.
    [pytest.param(number, *story, marks=[pytest.mark.slow] * (number > 0)) for number, story in enumerate(_STORIES)],
)
def test_followers_are_brought_back_without_a_seam(number: int, round_trip: float | None, burst: int) -> None:
    restart_followers_under_load(_FIRST_SEED + number, _RESTARTS, round_trip=round_trip, burst=burst)
