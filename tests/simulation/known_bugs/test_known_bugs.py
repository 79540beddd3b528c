"""Each planted bug that is hunted is caught, beginning with the seed that has shown it last.

Any change to the product or to the simulation makes another run of that seed, so the search goes on with the seeds
behind it. When this file becomes slow: `make known-bugs` pins the seeds anew.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.known_bugs import (
    admin,
    agreement,
    brokers,
    compaction,
    counts,
    elections,
    events,
    fetch,
    file_sends,
    grey_failures,
    groups,
    idempotence,
    lag,
    leadership_transfer,
    links,
    log_start,
    membership,
    produce,
    recovery,
    replication,
    rounds,
    storage_recovery,
    storage_writes,
    transactions,
)
from tests.simulation.known_bugs.by_scenario import BY_SCENARIO
from tests.simulation.known_bugs.hunt import Hunt
from tests.simulation.known_bugs.hunts import NAMES
from tests.simulation.known_bugs.pins import read_pins
from tests.simulation.known_bugs.report import add_hunts, page_of, read_measured
from tests.simulation.known_bugs.table import BUGS, HUNTED

_MODULES = (
    *(
        admin,
        agreement,
        brokers,
        compaction,
        counts,
        elections,
        events,
        fetch,
        file_sends,
        grey_failures,
        groups,
        idempotence,
        lag,
        links,
        log_start,
        membership,
        produce,
    ),
    *(leadership_transfer, recovery, replication, rounds, storage_recovery, storage_writes, transactions),
)
_ROOT = Path(__file__).parents[3]
_PINS = read_pins()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [bug.name for bug in HUNTED])
def test_the_bug_is_caught(name: str, hunted: Callable[[str], Hunt]) -> None:
    found = hunted(name)
    assert found.seed is not None, f"nobody objected: {found.others}"


def test_enough_bugs_are_planted_everywhere() -> None:
    areas = [bug.area for bug in HUNTED]
    assert len(areas) >= 48
    assert sum(area.startswith("storage") for area in areas) >= 12
    assert sum(area.startswith("Kafka") for area in areas) >= 14


def test_every_bug_says_where_it_is_known_from_and_pins_are_of_what_there_is() -> None:
    assert all(bug.source and bug.rule for bug in BUGS)
    assert set(_PINS) <= set(NAMES)


def test_the_page_has_all_bugs_as_the_registry_has_them() -> None:
    page = _ROOT / "docs/verification/known-bugs.md"
    assert page.read_text() == page_of(read_measured(page)), "make known-bugs ARGS=--tables writes it anew"


def test_the_page_keeps_the_hunts_of_the_other_bugs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    first, second = HUNTED[:2]
    add_hunts(page, [Hunt(first.name, 7, "VoteOnce", 3, 70.0, 10.0, 2.0), Hunt("gone", 1, "VoteOnce", 1)], "one")
    add_hunts(page, [Hunt(second.name, None, None, 300), Hunt(second.name, 9, "Positions", 2)], "two")
    measured = read_measured(page)
    assert {name: each.commit for name, each in measured.items()} == {first.name: "one", second.name: "two"}
    assert "| Positions 1, **missed 1** | 151 | 0 | 0.0 | two |" in page.read_text()
    assert f"\n1 of {len(HUNTED)} bugs were caught" in page.read_text()


def test_a_bug_that_needs_a_schedule_names_a_test_that_exists() -> None:
    for each in BY_SCENARIO:
        path, _, name = each.test.partition("::")
        assert f"def {name}(" in (_ROOT / path).read_text(), each.test


def test_every_bug_is_in_the_table_once() -> None:
    planted = {
        each.__name__
        for module in _MODULES
        for name, each in vars(module).items()
        if getattr(each, "__module__", "") == module.__name__ and not name.startswith("_")
    }
    names = [bug.name for bug in BUGS]
    assert len(names) == len(set(names))
    assert planted == set(names)
