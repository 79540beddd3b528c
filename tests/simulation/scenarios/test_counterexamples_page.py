"""docs/counterexamples.md names, for every schedule, its rule, its test and the test without the rule; all of it exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[3]
_STORIES, _, _SHOWN = (_ROOT / "docs" / "counterexamples.md").read_text().partition("## Where each is shown")
# 23 to 30 were never given; 31 waits for log compaction.
_WITHOUT_A_RULE = {*range(23, 32)}
_NUMBERS = [
    name
    for number in range(1, 46)
    if number not in _WITHOUT_A_RULE
    for name in (("9a", "9b") if number == 9 else (str(number),))
]


def _rows(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        if re.match(r"\| \d+[ab]? \|", line):
            number, *cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            yield number, cells


_RULES = dict(_rows(_STORIES))
_PROOFS = {number: [cell.strip("`") for cell in cells] for number, cells in _rows(_SHOWN)}


def test_every_schedule_is_told_once_and_shown_once_in_order() -> None:
    assert [number for number, _ in _rows(_STORIES)] == _NUMBERS
    assert [number for number, _ in _rows(_SHOWN)] == _NUMBERS


@pytest.mark.parametrize("number", _NUMBERS)
def test_the_rule_stands_in_an_rfc(number: str) -> None:
    wrong, how, right, stated = _RULES[number]
    assert wrong
    assert how
    assert right
    found = re.fullmatch(r"RFC (\d{4})(?: (guide)| section (\d+))?", stated)
    assert found is not None, stated
    [path] = (_ROOT / "rfcs").glob(f"{found[1]}-*.md")
    heading = "## Guide" if found[2] else f"### {found[3]}. " if found[3] else "# RFC"
    assert re.search(rf"^{re.escape(heading)}", path.read_text(), re.MULTILINE), f"{path.name} has no {heading}"


def _functions(path: Path) -> dict[str, ast.FunctionDef]:
    return {each.name: each for each in ast.parse(path.read_text()).body if isinstance(each, ast.FunctionDef)}


def _called(function: ast.AST) -> set[str]:
    return {
        each.func.id for each in ast.walk(function) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }


def _called_where_an_error_is_expected(function: ast.FunctionDef) -> set[str]:
    """Return what is called under `with pytest.raises`."""
    return {
        name
        for each in ast.walk(function)
        if isinstance(each, ast.With) and "pytest.raises" in ast.unparse(ast.Module([*each.items], []))
        for statement in each.body
        for name in _called(statement)
    }


@pytest.mark.parametrize("number", _NUMBERS)
def test_a_schedule_is_run_with_its_rule_and_fails_without_it(number: str) -> None:
    file, shown, broken = _PROOFS[number]
    functions = _functions(_ROOT / file)
    proofs = _called(functions[shown]) & _called_where_an_error_is_expected(functions[broken]) & functions.keys()
    assert proofs, f"{broken} does not expect a proof of {shown} to fail"


@pytest.mark.parametrize("number", _NUMBERS)
def test_the_file_names_its_schedule(number: str) -> None:
    file = _PROOFS[number][0]
    named = re.findall(r"[Cc]ounterexamples? ((?:\d+[ab]?(?:, | and )?)+)", (_ROOT / file).read_text())
    assert number in re.findall(r"\d+[ab]?", " ".join(named)), f"{file} does not say that it is about {number}"
