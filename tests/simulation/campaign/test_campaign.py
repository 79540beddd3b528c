"""The default campaign: 500 seeds of 60 virtual seconds with Kafka clients; invariants, the checker, and all probes.

`make test` runs 100 of them. `make test-slow` runs the others, which meet every probe.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from tests.simulation.campaign.campaign import run_seeds
from tests.simulation.campaign.plan import RUN_SECONDS
from tests.simulation.campaign.run import RunResult
from tests.simulation.world.probes import SOMETIMES

_ROOT = Path(__file__).parents[3]
_FIRST_SEEDS, _SLOW_SEEDS, _LONG_SEEDS = range(1, 101), range(101, 501), range(1001, 2001)


def _check(results: Iterable[RunResult], probes: Sequence[str] = SOMETIMES) -> None:
    totals: Counter[str] = Counter()
    failures = []
    for result in results:
        totals.update(result.counts)
        if result.error is not None:
            failures.append(f"make sim SEED={result.seed}: {result.error}")
    assert not failures, "\n".join(failures)
    missing = [name for name in probes if not totals[name]]
    assert not missing, f"the campaign never saw: {missing}"


@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("seeds", "probes"),
    [
        pytest.param(_FIRST_SEEDS, (), id="first"),
        pytest.param(_SLOW_SEEDS, SOMETIMES, id="rest", marks=pytest.mark.slow),
    ],
)
def test_five_hundred_runs_break_no_invariant_and_show_clients_nothing_wrong(
    campaign: Callable[[], list[RunResult]], seeds: range, probes: Sequence[str]
) -> None:
    found = [result for result in campaign() if result.seed in seeds]
    assert len(found) == len(seeds)
    _check(found, probes)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_thousand_more_runs_do_not_either() -> None:
    _check(run_seeds(_LONG_SEEDS, RUN_SECONDS, jobs=2))


# 207 is a transactional run, 401 a living one.
@pytest.mark.parametrize("seed", [*range(7, 507, 100), 401])
def test_a_seed_is_the_same_run_in_every_process(seed: int) -> None:
    outputs = set()
    for hash_seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--seconds", "60"],
            capture_output=True,
            text=True,
            cwd=_ROOT,
            env={"PYTHONHASHSEED": hash_seed, "PATH": ""},
            timeout=120,
            check=False,
        )
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr
        outputs.add(run.stdout)
    assert len(outputs) == 1
