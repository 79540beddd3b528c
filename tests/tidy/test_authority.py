"""RFC 0012 lists every use of an office and of a pushed leadership, and no other: a new use is judged there first."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "rfcs" / "0012-authority.md"
_TREES = ("raft", "cluster", "kafka_api", "raftka/broker")
_AUTHORITY = {
    "require_office",
    "confirm_office",
    "is_in_office",
    "in_office",
    "leader_of",
    "newest_term",
    "newest_leader",
}


def _uses(node: ast.AST, function: str) -> Iterator[str]:
    """Yield the names of the functions in which authority is asked for."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Attribute) and child.attr in _AUTHORITY:
            yield function
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _uses(child, child.name if is_function else function)


def test_rfc_0012_names_every_use_of_authority_and_no_other() -> None:
    told: defaultdict[str, set[str]] = defaultdict(set)
    for path, functions in re.findall(r"^\| `([\w/]+\.py)`: ([^|]+) \|", _PAGE.read_text(), re.MULTILINE):
        told[path].update(re.findall(r"`(\w+)`", functions))
    found: dict[str, set[str]] = {}
    for tree in _TREES:
        for path in sorted((_ROOT / tree).rglob("*.py")):
            if functions := set(_uses(ast.parse(path.read_text()), "the module")):
                found[str(path.relative_to(_ROOT))] = functions
    assert told == found
