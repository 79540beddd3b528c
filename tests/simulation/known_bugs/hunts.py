"""Many hunts on several processes."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence

from tests.simulation.campaign.processes import results, worker_processes
from tests.simulation.known_bugs.hunt import SEEDS_MAX, Hunt, hunt, hunt_alone
from tests.simulation.known_bugs.invariants_alone import ALONE
from tests.simulation.known_bugs.pins import first_seed, read_pins
from tests.simulation.known_bugs.table import HUNTED, bugs_named

# What is hunted: a bug, or under the name of an invariant the bug that this one finds alone.
NAMES = [*(bug.name for bug in HUNTED), *(invariant.__name__ for invariant, _ in ALONE)]

# Tries search ranges of seeds that are apart from each other.
_TRY_STEP = 1_000
# What one run leaks must not add up.
_HUNTS_PER_PROCESS = 20


def hunt_all(names: Sequence[str], tries: int, first: int | None, seeds: int, jobs: int) -> Generator[Hunt, None, None]:
    """Yield the hunts as they end, `tries` for each name; a hunt runs `seeds` seeds at most.

    They begin at the seed `first`; None: at their pins.
    """
    pins = read_pins()
    begin = {name: first_seed(pins, name) if first is None else first for name in names}
    work = [(name, begin[name] + number * _TRY_STEP, seeds) for number in range(tries) for name in names]
    yield from results(_hunt, work, jobs=jobs, runs_per_process=_HUNTS_PER_PROCESS)


@contextlib.contextmanager
def pinned_hunts(names: Sequence[str], jobs: int) -> Iterator[Callable[[str], Hunt]]:
    """Begin each hunt at its pin, in this order, and yield what waits for the one of a name."""
    pins = read_pins()
    with worker_processes(jobs, _HUNTS_PER_PROCESS) as pool:
        under_way = {name: pool.apply_async(_hunt, [(name, first_seed(pins, name), SEEDS_MAX)]) for name in names}
        yield lambda name: under_way[name].get()


def _hunt(work: tuple[str, int, int]) -> Hunt:
    name, first_seed, seeds = work
    searched = range(first_seed, first_seed + seeds)
    for invariant, bug_name in ALONE:
        if invariant.__name__ == name:
            return hunt_alone(invariant, *bugs_named(bug_name), searched)
    return hunt(*bugs_named(name), searched)
