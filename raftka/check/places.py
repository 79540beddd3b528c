"""Which line of which file: several files are one history, and its lines are numbered through."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Places:
    """The files of a history, in order; without any, as in a history that was never written down, lines are numbers."""

    _names: list[str] = field(default_factory=list)
    # How many lines the files before each have.
    _before: list[int] = field(default_factory=list)

    def begin(self, name: str, before: int) -> None:
        """Note that a file begins behind so many lines of others."""
        self._names.append(name)
        self._before.append(before)

    def of(self, line: int) -> dict[str, str | int]:
        """Return file and line in it, as fields of an operation that is shown; without files only the line."""
        if not self._names:
            return {"line": int(line)}
        at = bisect_left(self._before, line) - 1
        return {"file": self._names[at], "line": int(line) - self._before[at]}

    def name(self, line: int) -> str:
        """Return `file:line`, or `line 7` without files."""
        return shown(self.of(line))


def shown(place: Mapping[str, Any]) -> str:
    """Return a place, or an operation that has one, for people: `file:line`, or `line 7`."""
    return f"{place['file']}:{place['line']}" if "file" in place else f"line {place['line']}"
