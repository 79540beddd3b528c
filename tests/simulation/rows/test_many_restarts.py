"""P18 with 500 restarts: 50 in the row itself, the others here, each story with a seed of its own."""

import pytest

from tests.simulation.rows.hand_over import restart_followers_under_load

_SEEDS = range(1118, 1127)
_BY_DEFAULT = 2
_RESTARTS = 50


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=() if number < _BY_DEFAULT else pytest.mark.long) for number, seed in enumerate(_SEEDS)],
)
def test_followers_are_brought_back_without_a_seam(seed: int) -> None:
    restart_followers_under_load(seed, _RESTARTS)
