"""Every error says why: an exception of Python or of a library may have an empty text."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("runtime", "model", "storage", "rpc", "raft", "cluster", "kafka_api", "raftka")
HELPERS = ("model/error_text.py", "raftka/error_text.py")
# What Python, asyncio and http.client raise without a text, and their bases.
MAY_BE_EMPTY = frozenset(
    {
        *("OSError", "TimeoutError", "ConnectionError", "ConnectionResetError", "BrokenPipeError", "EOFError"),
        *("CancelledError", "AssertionError", "MemoryError", "RuntimeError", "HTTPException", "TimeoutExpired"),
        *("Exception", "BaseException"),
    }
)
LOGGING = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})


def test_a_reason_is_told_wherever_an_exception_may_have_no_text() -> None:
    found = [line for path, tree in _sources() for line in _bare_texts(path, tree)]
    assert found == [], "use `reason_of`"


def test_errors_of_our_own_are_raised_with_a_text() -> None:
    own = {name for _, tree in _sources() for name in _own_errors(tree)}
    # Both are taken by their type, and nobody tells their text.
    own -= {"NoDirectWriteError", "TerminatedError"}
    assert [line for path, tree in _sources() for line in _raises_without_text(path, tree, own)] == []


@pytest.mark.parametrize(
    "line",
    ['print(f"failed: {error}")', "say(str(error))", '_logger.error("failed: %s", error)', 'say(f"{error.strerror}")'],
)
def test_the_check_finds_a_bare_text(line: str) -> None:
    handler = f"try:\n    step()\nexcept (StorageError, OSError) as error:\n    {line}\n"
    assert len(list(_bare_texts(Path("x.py"), ast.parse(handler)))) == 1
    function = f"def told(error: Exception) -> None:\n    {line}\n"
    assert len(list(_bare_texts(Path("x.py"), ast.parse(function)))) == 1


def _sources() -> Iterator[tuple[Path, ast.Module]]:
    for each in TREES:
        for path in sorted((ROOT / each).rglob("*.py")):
            name = path.relative_to(ROOT)
            if str(name) not in HELPERS:
                yield name, ast.parse(path.read_text())


def _bare_texts(path: Path, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name and MAY_BE_EMPTY & _names(node.type):
            yield from _uses(path, node, {node.name})
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield from _uses(path, node, {each.arg for each in arguments if MAY_BE_EMPTY & _names(each.annotation)})


def _uses(path: Path, scope: ast.AST, errors: set[str]) -> Iterator[str]:
    for node in ast.walk(scope):
        told: list[ast.expr] = []
        if isinstance(node, ast.FormattedValue) and node.conversion != ord("r"):
            told = [node.value]
        elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str") or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOGGING
        ):
            told = node.args
        for each in told:
            if isinstance(each, ast.Attribute) and each.attr == "strerror":
                each = each.value
            if isinstance(each, ast.Name) and each.id in errors:
                yield f"{path}:{each.lineno}: {ast.unparse(node)}"


def _names(kinds: ast.expr | None) -> set[str]:
    """Return the names in `A`, `a.A`, `(A, B)` or `A | B`."""
    if kinds is None:
        return set()
    return {each.id for each in ast.walk(kinds) if isinstance(each, ast.Name)} | {
        each.attr for each in ast.walk(kinds) if isinstance(each, ast.Attribute)
    }


def _own_errors(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
            yield node.name


def _raises_without_text(path: Path, tree: ast.Module, own: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise):
            continue
        bare = isinstance(node.exc, ast.Name) and node.exc.id in own
        called = isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name) and node.exc.func.id in own
        if bare or (called and not (node.exc.args or node.exc.keywords)):  # type: ignore[union-attr]
            yield f"{path}:{node.lineno}: {ast.unparse(node)}"
