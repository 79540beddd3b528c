"""The default campaign: 200 seeds of 60 virtual seconds, every invariant after every instant."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.campaign import run_seeds

_ROOT = Path(__file__).parents[2]
_SEEDS = range(1, 201)
# What a campaign must have seen at least once: a fault that never happens proves nothing.
_SOMETIMES = (
    "truncations",
    "data truncated",
    "leader_ack lost",
    "visible entries replaced",
    "starts that the disk refused",
    "acked QUORUM_ACK",
    "acked LEADER_ACK",
    "acked NO_ACK",
    "produce LeadershipLostError",
    "produce NotLeaderError",
    "produce ReplicaFailedError",
)


@pytest.mark.timeout(1500)
def test_two_hundred_runs_break_no_invariant() -> None:
    totals: Counter[str] = Counter()
    failures = []
    for result in run_seeds(_SEEDS, 60.0, jobs=2):
        totals.update(result.counts)
        if result.error is not None:
            failures.append(f"make sim SEED={result.seed}: {result.error}")
    assert not failures, "\n".join(failures)
    missing = [name for name in _SOMETIMES if not totals[name]]
    assert not missing, f"the campaign never saw: {missing}"


@pytest.mark.parametrize("seed", [3, 12])
def test_a_seed_is_the_same_run_in_every_process(seed: int) -> None:
    outputs = set()
    for hash_seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--seconds", "40"],
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
