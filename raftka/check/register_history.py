"""Histories of registers: one sequence of calls and returns per key, with values as small numbers."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from raftka.check.errors import HistoryError
from raftka.check.history_file import read_lines
from raftka.check.operations import REGISTER_OPERATIONS, Cas, Fault, Line, Read, Write
from raftka.check.places import Places

NULL = 0
NEVER = float("inf")

# Brackets within brackets of a value: far below what Python's stack bears, wherever the value is written again.
VALUE_DEPTH_MAX = 64

READ, WRITE, CAS_DONE, CAS_REFUSED = range(4)


@dataclass(frozen=True, slots=True)
class Step:
    """What an operation does to a register, if it takes effect.

    Attributes:
        kind: READ finds `expected`; WRITE leaves `new`; CAS_DONE finds `expected` and leaves `new`; CAS_REFUSED finds
            anything but `expected`.
        inv: Not before.
        ret: Not after; NEVER where nobody was told the end. Then it may also never have happened.
    """

    kind: int
    expected: int
    new: int
    inv: int
    ret: float
    line: int


@dataclass(slots=True)
class RegisterHistory:
    """All keys.

    Attributes:
        values: The number of each value, by its JSON.
        lines: The operations by the number of their line, for proofs.
        places: Which line of which file a line is.
    """

    steps: dict[str, list[Step]] = field(default_factory=lambda: defaultdict(list))
    values: dict[bytes, int] = field(default_factory=lambda: defaultdict(count(1).__next__))
    lines: dict[int, Read | Write | Cas] = field(default_factory=dict)
    operations: int = 0
    places: Places = field(default_factory=Places)

    @property
    def is_answered(self) -> bool:
        """Whether a read or a cas has an answer."""
        return any(step.kind != WRITE and step.ret != NEVER for steps in self.steps.values() for step in steps)

    def take(self, number: int, operation: Line) -> None:
        """Take the next line; faults say nothing of registers.

        Raises:
            HistoryError: It lacks what it needs.
        """
        if not isinstance(operation, REGISTER_OPERATIONS):
            return
        self.operations += 1
        step = _step(self, number, operation)
        if step is not None:
            self.steps[operation.key].append(step)
            self.lines[number] = operation

    def shown(self, number: int) -> dict[str, Any]:
        """Return one operation as it was read, and where."""
        fields: dict[str, Any] = msgspec.to_builtins(self.lines[number])
        return self.places.of(number) | fields

    def value(self, number: int) -> str:
        """Return a value as JSON; of a history that was made of steps, its number."""
        if number == NULL:
            return "null"
        known = (encoded.decode() for encoded, its_number in self.values.items() if its_number == number)
        return next(known, str(number))


def read_register_history(
    paths: Iterable[Path], note: Callable[[int], None] | None = None, *, has_cas: bool
) -> RegisterHistory:
    """Return the history of one or several files, in the order given.

    Args:
        paths: The files.
        note: Called with numbers of bytes, as they are read.
        has_cas: Whether it may have a cas.

    Raises:
        HistoryError: It cannot be judged.
        OSError: A file cannot be read.
    """
    history, before = RegisterHistory(), 0
    busy = Busy()
    for path in paths:
        history.places.begin(str(path), before)
        last = 0
        for first, operations in read_lines(path, note=note):
            for number, each in enumerate(operations, first):
                busy.take(history.places, before + number, each, has_cas=has_cas)
                history.take(before + number, each)
            last = first + len(operations) - 1
        before += last
    check_answers(history.operations, is_answered=history.is_answered)
    return history


def check_answers(operations: int, *, is_answered: bool) -> None:
    """Refuse a history that says nothing.

    Raises:
        HistoryError: It has no operations, or no answers.
    """
    if not operations:
        raise HistoryError("nothing was read or written: there is nothing to judge")
    if not is_answered:
        raise HistoryError("no read and no cas was answered: writes alone contradict nothing, and so prove nothing")


def register_history(lines: Iterable[Line], *, has_cas: bool) -> RegisterHistory:
    """Return the history of lines at hand; an empty one too."""
    history = RegisterHistory()
    busy = Busy()
    for number, line in enumerate(lines, 1):
        busy.take(history.places, number, line, has_cas=has_cas)
        history.take(number, line)
    return history


@dataclass(slots=True)
class Busy:
    """What each process does: one thing at a time.

    Attributes:
        firsts: When each process first began something, and the line of it.
        lasts: When each process was last busy, and the line of it.
    """

    firsts: dict[int, tuple[int, int]] = field(default_factory=dict)
    lasts: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, places: Places, number: int, operation: Line, *, has_cas: bool) -> None:
        """Take the next line.

        Raises:
            HistoryError: It is of another model, or contradicts itself or its process's former one.
        """
        if isinstance(operation, Fault):
            return
        if not isinstance(operation, REGISTER_OPERATIONS) or (isinstance(operation, Cas) and not has_cas):
            tag = operation.__struct_config__.tag
            other = "cas" if isinstance(operation, Cas) else "log"
            raise HistoryError(f"{places.name(number)}: `{tag}` is not of this model: --model {other}")
        if operation.ret is not None and operation.ret < operation.inv:
            raise HistoryError(f"{places.name(number)}: the operation ends before it began")
        if operation.type == "ok" and operation.ret is None:
            raise HistoryError(f"{places.name(number)}: the operation is ok and has no `ret`")
        ended, former = self.lasts.get(operation.proc, (operation.inv, number))
        if ended > operation.inv:
            raise HistoryError(overlap(places, operation.proc, former, number))
        self.firsts.setdefault(operation.proc, (operation.inv, number))
        self.lasts[operation.proc] = (operation.inv if operation.ret is None else operation.ret, number)


def overlap(places: Places, process: int, former: int, number: int) -> str:
    """Return what is wrong with two lines of one process."""
    return (
        f"{places.name(former)} and {places.name(number)}: process {process} begins the second before the first has"
        " ended; each process's lines are in the order of time"
    )


def _step(history: RegisterHistory, number: int, operation: Read | Write | Cas) -> Step | None:
    """Return what is to be explained; None where the outcome tells nothing."""
    if operation.type == "fail" or (operation.type == "info" and isinstance(operation, Read)):
        return None
    ret = NEVER if operation.type == "info" or operation.ret is None else operation.ret
    if isinstance(operation, Read):
        if operation.out is msgspec.UNSET:
            raise HistoryError(f"{history.places.name(number)}: a read that is ok has an `out`, null where nothing was")
        return Step(READ, _value(history, number, operation.out), 0, operation.inv, ret, number)
    if isinstance(operation, Write):
        return Step(WRITE, 0, _value(history, number, operation.value), operation.inv, ret, number)
    expected, new = (_value(history, number, each) for each in operation.value)
    if operation.type == "ok" and operation.out is None:
        raise HistoryError(f"{history.places.name(number)}: a cas that is ok has an `out`")
    # One without an answer either did nothing, as if it had never been, or what it was asked for.
    kind = CAS_REFUSED if operation.out is False and operation.type == "ok" else CAS_DONE
    return Step(kind, expected, new, operation.inv, ret, number)


def _value(history: RegisterHistory, line: int, value: Any) -> int:
    if isinstance(value, list | dict) and _is_deep(value):
        raise HistoryError(f"{history.places.name(line)}: a value that is nested more than {VALUE_DEPTH_MAX} deep")
    return NULL if value is None else history.values[_canonical(value)]


def _canonical(value: Any) -> bytes:
    """Return one JSON for all that mean the same: the members of an object have no order, and 1 and 1.0 are a number.

    1, true and "1" are three values.
    """
    return msgspec.json.encode(_with_whole_numbers(value), order="deterministic")


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(each) for each in value]
    if isinstance(value, dict):
        return {name: _with_whole_numbers(each) for name, each in value.items()}
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(VALUE_DEPTH_MAX):
        above = [each for each in level if isinstance(each, list | dict)]
        level = [inner for each in above for inner in (each.values() if isinstance(each, dict) else each)]
    return any(isinstance(each, list | dict) for each in level)
