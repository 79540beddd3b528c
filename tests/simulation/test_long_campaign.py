"""Many more seeds than the default suite has."""

import pytest

from tests.simulation.campaign import run_seeds

_SEEDS = range(1001, 2001)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_thousand_more_runs_break_no_invariant() -> None:
    results = run_seeds(_SEEDS, 60.0, jobs=2)
    failures = [f"make sim SEED={result.seed}: {result.error}" for result in results if result.error is not None]
    assert not failures, "\n".join(failures)
