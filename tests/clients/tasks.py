"""What every client is asked for, as the tests say it, and what must come of it by what the client has."""

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.client import Abilities

PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Task:
    """A test, by what it asks of a client's `Abilities`.

    Attributes:
        needs: Without these it cannot be asked for.
        uses: Without these less is asked.
    """

    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()

    @classmethod
    def of_marks(cls, marks: list[pytest.Mark]) -> "Task":
        """Return what the mark `asks` says; a test without it asks for nothing that a client could lack."""
        return next((cls(**mark.kwargs) for mark in marks if mark.name == "asks"), cls())

    def refusal(self, abilities: Abilities) -> str | None:
        """Return why a client cannot be asked, if it cannot."""
        lacking = abilities.lacking(self.needs)
        return f"cannot: no {', '.join(lacking)}" if lacking else None

    def outcome(self, abilities: Abilities) -> str:
        """Return what is to be recorded of a client where nothing fails."""
        lacking = abilities.lacking(self.uses)
        passed = f"{PASSED} without {', '.join(lacking)}" if lacking else PASSED
        return self.refusal(abilities) or passed


def client_tasks() -> dict[str, Task]:
    """Return what every client is asked for."""
    return _tasks("client")


def tools_tasks() -> dict[str, Task]:
    """Return what Kafka's own tools are asked for."""
    return _tasks("tools_referee")


def _tasks(fixture: str) -> dict[str, Task]:
    found = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.clients.{path.stem}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and fixture in inspect.signature(function).parameters:
                found[name.removeprefix("test_")] = Task.of_marks(getattr(function, "pytestmark", []))
    return found
