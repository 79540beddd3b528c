"""Many runs on several processes."""

import contextlib
import logging
from collections.abc import Callable, Generator, Iterable, Iterator

import pytest

from tests.simulation.campaign.plan import Plan
from tests.simulation.campaign.processes import results, worker_processes
from tests.simulation.campaign.run import RunResult, run
from tests.simulation.known_bugs.table import bugs_named, plant

# What one run leaks must not add up over a campaign.
_RUNS_PER_PROCESS = 50
_BACKGROUND = 19

# What is run, and the bug that is planted in it.
_Work = tuple[Plan, str | None]


def plan_of(seed: int, seconds: float, bug: str | None = None) -> Plan:
    """Return what is run of a seed: the campaign's run, or the one in which a bug is hunted."""
    if bug is None:
        return Plan.of_campaign(seed, seconds)
    (known,) = bugs_named(bug)
    return Plan(seed, seconds, living=known.living, transactional=known.transactional, compacted=known.compacted)


def run_seeds(
    seeds: Iterable[int], seconds: float, jobs: int, bug: str | None = None
) -> Generator[RunResult, None, None]:
    """Yield the results of many runs, as they end, from `jobs` processes; in each of them `bug` is planted."""
    work = ((plan_of(seed, seconds, bug), bug) for seed in seeds)
    yield from results(_run, work, jobs=jobs, runs_per_process=_RUNS_PER_PROCESS)


@contextlib.contextmanager
def campaign_in_the_background(
    seeds: Iterable[int], seconds: float, jobs: int
) -> Iterator[Callable[[], list[RunResult]]]:
    """Begin many runs on processes that take only the time that nobody else wants; yield what waits for them."""
    with worker_processes(jobs, _RUNS_PER_PROCESS, niceness=_BACKGROUND) as pool:
        work: list[_Work] = [(Plan.of_campaign(seed, seconds), None) for seed in seeds]
        under_way = pool.map_async(_run, work, chunksize=1)
        yield under_way.get


def _run(work: _Work) -> RunResult:
    logging.disable(logging.CRITICAL)
    plan, bug = work
    with pytest.MonkeyPatch.context() as patch:
        if bug is not None:
            plant(patch, bug)
        return run(plan)
