"""Runs seeds with one bug planted until somebody objects: the only place that runs the simulation here."""

import logging
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

import tests.simulation.world.observer
from tests.simulation.campaign.plan import RUN_SECONDS, Plan
from tests.simulation.campaign.run import RunResult, run
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.known_bugs.known_bug import KnownBug, Plant
from tests.simulation.known_bugs.objectors import last_line, objector

# The budget of a bug, of the 5,000 that a clean campaign has; a search that needs more counts as failed.
SEEDS_MAX = 300

_EVENT_TIME = re.compile(r"^\s*(\d+\.\d{6}) ")


@dataclass(slots=True)
class Hunt:
    """What the search for one bug has come to.

    Attributes:
        seed: The one whose run was ended by an objection; None: there was none within the budget.
        objector: Who has objected.
        seeds: How many were run, the last one included.
        virtual_seconds: Of all of them, up to the objection.
        last_seconds: Of the last one.
        cpu_seconds: Processor time of it.
        others: How the runs before ended.
    """

    name: str
    seed: int | None = None
    objector: str | None = None
    seeds: int = 0
    virtual_seconds: float = 0.0
    last_seconds: float = 0.0
    cpu_seconds: float = 0.0
    others: Counter[str] = field(default_factory=Counter)


def hunt(bug: KnownBug, seeds: Iterable[int]) -> Hunt:
    """Run seeds with a bug planted until one of its objectors objects."""
    return _hunt(bug, bug.name, bug.plant, bug.objectors, seeds)


def hunt_alone(invariant: type[Invariant], bug: KnownBug, seeds: Iterable[int]) -> Hunt:
    """Run seeds with a bug planted until the invariant objects that is the only one to look at them."""

    def plant_and_look(patch: pytest.MonkeyPatch) -> None:
        bug.plant(patch)
        patch.setattr(tests.simulation.world.observer, "ALL", (invariant,))

    return _hunt(bug, invariant.__name__, plant_and_look, (invariant.__name__,), seeds)


def _hunt(bug: KnownBug, name: str, plant: Plant, objectors: Sequence[str], seeds: Iterable[int]) -> Hunt:
    found = Hunt(name)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    began = time.process_time()
    try:
        for seed in seeds:
            with pytest.MonkeyPatch.context() as patch:
                plant(patch)
                result = run(Plan(seed, living=bug.living, transactional=bug.transactional, compacted=bug.compacted))
            found.seeds += 1
            found.last_seconds = _virtual_seconds(result)
            found.virtual_seconds += found.last_seconds
            who = objector(result)
            if who in objectors:
                found.seed, found.objector = seed, who
                break
            found.others[last_line(result) if who is None else f"{who} objected"] += 1
    finally:
        logging.disable(disabled)
        found.cpu_seconds = time.process_time() - began
    return found


def _virtual_seconds(result: RunResult) -> float:
    """Return how far a run has come: the time of its newest event, or all of it."""
    for line in reversed(result.lines):
        event = _EVENT_TIME.match(line)
        if event is not None:
            return float(event[1])
    return RUN_SECONDS
