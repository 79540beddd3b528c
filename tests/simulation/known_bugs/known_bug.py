"""What a planted bug is: one type, for bugs that are hunted and for bugs that a row's proof must notice."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class KnownBug:
    """One line of the table.

    Attributes:
        plant: Breaks one rule in memory; its name is a fragment of a sentence, its docstring says which rule.
        area: Of the product; a headline of the table.
        source: Where the bug is known from: the paper's section, a counterexample, an issue of another project.
        objectors: Invariants or anomalies of which at least one must object: whichever of them comes first. None: the
            bug is not hunted, and the proof of a row of the seed RFC must fail with it (`tests.simulation.rows`).
        living: It is hunted in runs whose members change.
        transactional: It is hunted in runs that have transactions.
        compacted: It is hunted in runs that have transactions and a compacted topic.
    """

    plant: Plant
    area: str
    source: str
    objectors: tuple[str, ...]
    living: bool = False
    transactional: bool = False
    compacted: bool = False

    @property
    def name(self) -> str:
        """The fragment of a sentence, with underscores."""
        return self.plant.__name__

    @property
    def rule(self) -> str:
        """Which rule it breaks."""
        return (self.plant.__doc__ or "").strip().split("\n\n")[0]
