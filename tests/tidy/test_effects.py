"""What a transition of a replica's state returns is given to `settle`: a dropped effect is a defect."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_STATE = _ROOT / "raft" / "replica_state.py"
_EFFECTS = _ROOT / "raft" / "effects.py"
_PRODUCT = ("raft", "cluster", "kafka_api", "raftka")


def _transitions() -> set[str]:
    """Return the public methods of ReplicaState whose result names an effect."""
    effects = {each.name for each in ast.parse(_EFFECTS.read_text()).body if isinstance(each, ast.ClassDef)}
    [state] = [
        each
        for each in ast.parse(_STATE.read_text()).body
        if isinstance(each, ast.ClassDef) and each.name == "ReplicaState"
    ]
    methods = (each for each in state.body if isinstance(each, ast.FunctionDef) and each.returns is not None)
    return {
        each.name
        for each in methods
        if not each.name.startswith("_") and effects & set(ast.unparse(each.returns or each).replace("|", " ").split())
    }


def _dropped(source: str, transitions: set[str]) -> Iterator[int]:
    """Yield the lines on which the result of a transition of some `state` is dropped."""
    for each in ast.walk(ast.parse(source)):
        call = each.value if isinstance(each, ast.Expr) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        if call.func.attr in transitions and ast.unparse(call.func.value).endswith("state"):
            yield each.lineno


def test_the_transitions_that_have_effects_are_found() -> None:
    expected = {"adopt_term", "follow", "lose_leader", "become_leader", "set_levels", "advance", "on_leader_progress"}
    assert _transitions() == expected | {"on_installed"}


@pytest.mark.parametrize("package", _PRODUCT)
def test_no_effect_is_dropped(package: str) -> None:
    transitions = _transitions()
    found = [
        f"{path.relative_to(_ROOT)}:{line}"
        for path in sorted((_ROOT / package).rglob("*.py"))
        for line in _dropped(path.read_text(), transitions)
    ]
    assert found == []


def test_a_dropped_effect_is_seen() -> None:
    assert list(_dropped("context.state.advance()\nsettle(context.state.advance())", {"advance"})) == [1]
