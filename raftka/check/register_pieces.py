"""A register history taken apart: parts of its files, and what each has of each key.

A key's verdict depends on this key's operations only. What reaches over keys, that a process does one thing at a time,
is found within each part, and between parts by who was last in one and is first in another (`Busy`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from raftka.check.errors import HistoryError
from raftka.check.history_file import Part, read_lines
from raftka.check.operations import Cas, Read, Write
from raftka.check.places import Places
from raftka.check.register_history import Busy, RegisterHistory, overlap

Steps = list[tuple[int, Read | Write | Cas]]
# What is found in a chunk of lines is found in this order: lines that cannot be read, then line by line.
_UNREADABLE, _OVERLAP, _WRONG = range(3)


@dataclass(frozen=True, slots=True)
class RegisterPart:
    """What the whole history needs of one part of it.

    Attributes:
        operations: How many.
        is_answered: Whether a read or a cas has an answer.
        busy: What each process did, up to the error.
        error: The first line that is wrong by itself: what orders it, and the reason.
    """

    operations: int
    is_answered: bool
    busy: Busy
    error: tuple[tuple[int, int], str] | None


def read_register_part(
    path: Path, part: Part, before: int, places: Places, *, has_cas: bool
) -> tuple[RegisterPart, dict[str, Steps]]:
    """Return what a part of a file says, and of each key the operations that have to be explained.

    Raises:
        OSError: The file cannot be read.
    """
    history, busy = RegisterHistory(places=places), Busy()
    at = (before + part.first_line, _UNREADABLE)
    error = None
    try:
        for first, operations in read_lines(path, part):
            for number, each in enumerate(operations, before + first):
                at = (number, _WRONG)
                busy.take(places, number, each, has_cas=has_cas)
                history.take(number, each)
            at = (before + first + len(operations), _UNREADABLE)
    except HistoryError as problem:
        error = (at, str(problem))
    steps: dict[str, Steps] = defaultdict(list)
    for number, operation in history.lines.items():
        steps[operation.key].append((number, operation))
    return RegisterPart(history.operations, history.is_answered, busy, error), dict(steps)


def check_parts(parts: Sequence[RegisterPart], places: Places) -> None:
    """Refuse a history as whoever reads it line by line would.

    Raises:
        HistoryError: A line is wrong, by itself or beside an earlier one of its process.
    """
    lasts: dict[int, tuple[int, int]] = {}
    for part in parts:
        problems = [] if part.error is None else [part.error]
        for process, (begun, number) in part.busy.firsts.items():
            ended, former = lasts.get(process, (begun, number))
            if ended > begun:
                problems.append(((number, _OVERLAP), overlap(places, process, former, number)))
        if problems:
            raise HistoryError(min(problems)[1])
        lasts |= part.busy.lasts


def key_history(pieces: Iterable[Steps], places: Places) -> RegisterHistory:
    """Return the history of one key, of what each part has of it, in order."""
    history = RegisterHistory(places=places)
    for piece in pieces:
        for number, operation in piece:
            history.take(number, operation)
    return history
