"""What `raftka doctor` finds: each finding with its cure."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is, in ascending order: a problem keeps something from working, a warning will hurt one day."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        level: How bad it is.
        what: What was looked at, in a word or two.
        words: What was found.
        cure: What to do; empty only where nothing need be done.
    """

    level: Level
    what: str
    words: str
    cure: str = ""


def ok(what: str, words: str) -> Finding:
    """Return a finding with nothing wrong."""
    return Finding(Level.OK, what, words)
