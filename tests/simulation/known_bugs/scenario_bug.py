"""A planted bug that a written schedule shows, because random search hardly ever does."""

from typing import NamedTuple


class ScenarioBug(NamedTuple):
    """One line of the second table: what breaks, where it is known from, and the test that must fail with it."""

    bug: str
    source: str
    test: str
