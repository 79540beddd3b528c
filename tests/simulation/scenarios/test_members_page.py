"""docs/verification/members.md names tests and planted bugs that exist."""

import re
from pathlib import Path

import pytest

from tests.simulation.known_bugs.table import BUGS

_ROOT = Path(__file__).resolve().parents[3]
_PAGE = (_ROOT / "docs" / "verification" / "members.md").read_text()
_ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in _PAGE.splitlines()
    if line.startswith("| ") and "`" in line
]
_SCHEDULES = [row for row in _ROWS if len(row) == 4]
_PLANTED = [row for row in _ROWS if len(row) == 2]
_TESTS = {
    path.name: set(re.findall(r"def (test_\w+)", path.read_text())) for path in (_ROOT / "tests").rglob("test_*.py")
}


def _named(cell: str) -> list[tuple[str, str]]:
    return re.findall(r"`([\w.]+\.py)::(\w+)`", cell)


@pytest.mark.parametrize("row", _SCHEDULES, ids=lambda row: row[0][:60])
def test_a_schedule_names_tests_that_exist(row: list[str]) -> None:
    _, holds, shown, fails = row
    assert holds
    tests = _named(shown)
    assert tests
    for file, test in [*tests, *_named(fails)]:
        assert test in _TESTS[file], f"{file} has no {test}"
    for test in re.findall(r"`::(\w+)`", fails):
        assert any(test in _TESTS[file] for file, _ in tests), f"no file of this row has {test}"


@pytest.mark.parametrize("row", _PLANTED, ids=lambda row: row[0])
def test_a_planted_bug_names_what_finds_it(row: list[str]) -> None:
    _, found = row
    tests, hunted = _named(found), re.findall(r"`(\w+)`", found)
    assert len(tests) + len(hunted) == found.count("`") / 2 > 0
    for file, test in tests:
        assert test in _TESTS[file], f"{file} has no {test}"
    assert set(hunted) <= {bug.name for bug in BUGS}


def test_no_row_of_the_page_is_left_out() -> None:
    rows = [line for line in _PAGE.splitlines() if line.startswith("| ")]
    heads = 2 * len(re.findall(r"^## ", _PAGE, re.MULTILINE))
    assert len(_SCHEDULES) + len(_PLANTED) == len(rows) - heads
