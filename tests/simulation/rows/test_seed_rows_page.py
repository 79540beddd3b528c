"""docs/seed-rows.md says of every row where it is shown, and says the truth."""

import re
from pathlib import Path

import pytest

from tests.simulation.known_bugs.table import BUGS
from tests.simulation.rows.table import ROWS

_ROOT = Path(__file__).resolve().parents[3]
_PAGE = (_ROOT / "docs" / "seed-rows.md").read_text()
_LINES = {
    cells[0]: cells[1:]
    for line in _PAGE.splitlines()
    if re.match(r"\| P\d+ \|", line)
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
_OTHER_ROWS = {
    cells[0]: cells[1:]
    for line in _PAGE.partition("## Rows of Rama and Fluvio")[2].splitlines()
    if re.match(r"\| [RF]\d+ \|", line)
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}
_FORGOTTEN = [line for line in _PAGE.partition("## What the seed documents forgot")[2].splitlines() if "`" in line]
_OBJECTORS = {bug.name: bug.objectors for bug in BUGS}
_INVARIANTS = {
    name
    for path in (_ROOT / "tests" / "simulation" / "invariants").glob("*.py")
    for name in re.findall(r"^class (\w+)\(Invariant\)", path.read_text(), re.MULTILINE)
}
_NUMBERS = [f"P{number}" for number in range(1, 24)]
_PROVEN = {row.number: row for row in ROWS}
_PARAGRAPHS = ("P10", "P17", "P23")


def _row_tests() -> dict[str, list[str]]:
    """Return the names of the tests that are named after a row, by file name."""
    found: dict[str, list[str]] = {}
    for path in sorted((_ROOT / "tests").rglob("test_*.py")):
        names = re.findall(r"def (test_row_p\d+_\w+)", path.read_text())
        if names:
            found[path.name] = names
    return found


_ROW_TESTS = _row_tests()


def _tests_by_file() -> dict[str, set[str]]:
    """Return the names of all tests by the name of their file, which is unique."""
    return {
        path.name: set(re.findall(r"def (test_\w+)", path.read_text())) for path in (_ROOT / "tests").rglob("test_*.py")
    }


_TESTS = _tests_by_file()


def test_every_row_is_listed_once_and_in_order() -> None:
    assert list(_LINES) == _NUMBERS
    assert len(re.findall(r"^\| P\d+ \|", _PAGE, re.MULTILINE)) == len(_NUMBERS)


@pytest.mark.parametrize("number", list(_PROVEN))
def test_a_proven_row_names_its_proof_and_its_planted_bugs(number: str) -> None:
    row, (promise, shown, fails) = _PROVEN[number], _LINES[number]
    module = row.prove.__module__.rpartition(".")[2]
    assert promise == row.sentence
    assert shown == f"`{module}.{row.prove.__name__}`"
    assert fails == ", ".join(f"`{bug.name}`" for bug in row.bugs)
    assert row.bugs


@pytest.mark.parametrize("number", [number for number in _NUMBERS if number not in _PROVEN])
def test_any_other_row_names_what_exists(number: str) -> None:
    _, shown, _ = _LINES[number]
    prefix = f"test_row_{number.lower()}_"
    for name in re.findall(r"`(test_\w+\.py)`", shown):
        names = [each for each in _ROW_TESTS.get(name, []) if each.startswith(prefix)]
        assert any("_fails_" not in each for each in names), f"{name} has no {prefix}..."
        assert any("_fails_" in each for each in names), f"{name} has no {prefix}fails_..."
    for path in re.findall(r"`(benchmarks/[\w/]+\.py)`", shown):
        assert (_ROOT / path).is_file()
    if number in _PARAGRAPHS:
        section = (_ROOT / "rfcs" / "0003-replication.md").read_text().partition("The seed RFC's remaining rows")[2]
        assert re.search(rf"\b{number}\b", section), f"RFC 0003 says nothing of {number}"


def test_rows_of_rama_and_fluvio_are_listed_once_and_in_order() -> None:
    for letter in "RF":
        found = [int(number) for number in re.findall(rf"^\| {letter}(\d+) \|", _PAGE, re.MULTILINE)]
        assert found == sorted(set(found))
        assert len(found) > 10


@pytest.mark.parametrize("number", list(_OTHER_ROWS))
def test_a_row_of_rama_or_fluvio_names_tests_and_bugs_that_exist(number: str) -> None:
    promise, shown, fails = _OTHER_ROWS[number]
    assert promise
    tests = [name.split("::") for name in re.findall(r"`([\w.]+\.py::\w+)`", shown)]
    invariants = set(re.findall(r"`([A-Z]\w+)`", shown))
    assert tests or invariants
    assert shown.count("`") == 2 * (len(tests) + len(invariants))
    for file, test in tests:
        assert test in _TESTS[file], f"{file} has no {test}"
    assert invariants <= _INVARIANTS
    for name in re.findall(r"`([\w:]+)`", fails):
        if name.startswith("::"):
            assert any(name[2:] in _TESTS[file] for file, _ in tests), f"no file of {number} has {name}"
            continue
        # An invariant shows a row only if it is what finds the bug.
        assert name in _OBJECTORS
        assert tests or invariants & set(_OBJECTORS[name])


@pytest.mark.parametrize("line", _FORGOTTEN, ids=lambda line: line.split("|")[1].strip())
def test_what_the_documents_forgot_names_tests_that_exist(line: str) -> None:
    _, _, promise, shown, fails, _ = [cell.strip() for cell in line.split("|")]
    assert promise
    tests = re.findall(r"`([\w.]+)::(\w+)`", shown)
    assert tests
    for file, test in [*tests, *re.findall(r"`([\w.]+)::(\w+)`", fails)]:
        assert test in _TESTS[file], f"{file} has no {test}"
    for name in re.findall(r"`::(\w+)`", fails):
        assert any(name in _TESTS[file] for file, _ in tests), f"no file of this line has {name}"


def test_three_things_were_forgotten() -> None:
    assert [line.split("|")[1].strip() for line in _FORGOTTEN] == ["lost disk", "joining brokers", "mixed versions"]
