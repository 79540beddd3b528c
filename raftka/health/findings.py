"""What a look at a machine or a cluster finds: each finding with its level, its cause and its cure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How bad it is, in ascending order: a problem keeps something from working, a warning will hurt one day."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"

    @property
    def rank(self) -> int:
        """0 for OK up to 3 for PROBLEM."""
        return _ORDER.index(self)


_SHOWN_MAX = 5
_ORDER = (Level.OK, Level.NOTE, Level.WARNING, Level.PROBLEM)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: How bad it is.
        what: What was looked at, in a word or two.
        words: What was found.
        cure: What to do; never empty for a warning or a problem.
        cause: Why it is so; empty where that is the cluster's good state, or nothing more is known than the words say.
    """

    level: Level
    what: str
    words: str
    cure: str = ""
    cause: str = ""

    def __post_init__(self) -> None:
        if not self.cure and self.level.rank >= Level.WARNING.rank:
            raise ValueError(f"a {self.level} without a cure: {self.what}: {self.words}")


def ok(what: str, words: str) -> Finding:
    """Return a finding with nothing wrong."""
    return Finding(Level.OK, what, words)


def worst(findings: Iterable[Finding]) -> Level:
    """Return the worst level among them; OK if there are none."""
    return max((each.level for each in findings), key=lambda level: level.rank, default=Level.OK)


def to_json(finding: Finding) -> dict[str, str | None]:
    """Return level, what, words, cause and cure; null for a cause or a cure that is empty."""
    return {
        "level": finding.level.value,
        "what": finding.what,
        "words": finding.words,
        "cause": finding.cause or None,
        "cure": finding.cure or None,
    }


def from_json(document: Any) -> Finding:
    """Return the finding that `to_json` has written.

    Raises:
        ValueError: It is something else.
    """
    try:
        level, what, words = Level(document["level"]), str(document["what"]), str(document["words"])
        return Finding(level, what, words, str(document["cure"] or ""), str(document["cause"] or ""))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a finding: {document!r:.200}") from error


def listed(names: list[str]) -> str:
    """Return the first five names, and how many more there are."""
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more
