"""No module of the engine imports itself by way of another one; `make lint` holds the layers between them."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def _imported(path: Path) -> Iterator[str]:
    for each in ast.walk(ast.parse(path.read_text())):
        if isinstance(each, ast.ImportFrom) and each.module is not None:
            yield each.module
        elif isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)


@pytest.mark.parametrize("package", ["model", "runtime", "storage", "rpc", "raft", "cluster"])
def test_the_modules_of_a_package_import_each_other_one_way(package: str) -> None:
    paths = {
        ".".join(path.relative_to(_ROOT).with_suffix("").parts): path
        for path in (_ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    graph = {name: {other for other in _imported(path) if other in paths} for name, path in paths.items()}
    # Raises CycleError, which names the modules.
    assert set(TopologicalSorter(graph).static_order()) == set(paths)
