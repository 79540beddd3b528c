"""Tests on Spark where it is missing: their modules cannot be imported, and each of them is skipped by its name."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_MARK = "pytest.mark."


class SkippedModule(pytest.Module):
    """A module of tests that is not imported."""

    # Not an argument of the constructor: that is pytest's.
    reason = ""

    def collect(self) -> Iterator[pytest.Item]:
        for name, marks in names_and_marks(self.path.read_text()).items():
            item = SkippedTest.from_parent(self, name=name)
            item.reason = self.reason
            for mark in marks:
                item.add_marker(mark)
            yield item


class SkippedTest(pytest.Item):
    """One of its tests, whatever it is parametrized with."""

    reason = ""

    def runtest(self) -> None:
        pytest.skip(self.reason)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


def names_and_marks(source: str) -> dict[str, list[str]]:
    """Return the tests of a module by name, with those of their marks, and of the module's, that select tests."""
    body = ast.parse(source).body
    of_module = [
        each.value for each in body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark"
    ]
    return {
        each.name: _marks(of_module + each.decorator_list)
        for each in body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    }


def _marks(found: list[ast.expr]) -> list[str]:
    """Return the names of marks without arguments; what has some, as skipif, selects nothing."""
    each = [mark for one in found for mark in (one.elts if isinstance(one, ast.List) else [one])]
    texts = [ast.unparse(mark) for mark in each if isinstance(mark, ast.Attribute)]
    return [text.removeprefix(_MARK) for text in texts if text.startswith(_MARK)]
