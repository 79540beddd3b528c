"""Many runs on several processes."""

import logging
import os
from collections.abc import Iterable, Iterator
from multiprocessing import get_context

from tests.simulation.run import RunResult, run_seed

# What one run leaks must not add up over a campaign.
_RUNS_PER_PROCESS = 50


def run_seeds(seeds: Iterable[int], seconds: float, jobs: int, *, kafka: bool = False) -> Iterator[RunResult]:
    """Yield the results of many runs, as they end, from `jobs` processes.

    Worker processes begin fresh, are replaced after some runs, and end with the iteration.
    """
    context = get_context("spawn")
    with context.Pool(min(jobs, os.cpu_count() or 1), maxtasksperchild=_RUNS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(_run, ((seed, seconds, kafka) for seed in seeds))


def _run(work: tuple[int, float, bool]) -> RunResult:
    logging.disable(logging.CRITICAL)
    seed, seconds, kafka = work
    return run_seed(seed, seconds, kafka=kafka)
