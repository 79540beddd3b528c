"""One row of the seed RFC."""

from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.known_bugs.known_bug import KnownBug


class Row(NamedTuple):
    """A requirement by its number.

    Attributes:
        number: As in the seed RFC's table, "P1" to "P23".
        sentence: What must hold.
        prove: Runs a simulated cluster and raises AssertionError where the sentence does not hold.
        bugs: Each switches the mechanism off when it is planted; then `prove` must raise.
    """

    number: str
    sentence: str
    prove: Callable[[], None]
    bugs: tuple[KnownBug, ...]
