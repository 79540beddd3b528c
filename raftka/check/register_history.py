"""Histories of registers: one sequence of calls and returns per key, with values as small numbers."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from raftka.check.errors import HistoryError
from raftka.check.history_file import read_lines
from raftka.check.operations import REGISTER_OPERATIONS, Cas, Fault, Line, Read, Write

NULL = 0
NEVER = float("inf")

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
    """All keys; `lines` are the operations by number, for proofs."""

    steps: dict[str, list[Step]] = field(default_factory=lambda: defaultdict(list))
    values: dict[bytes, int] = field(default_factory=lambda: defaultdict(count(1).__next__))
    lines: dict[int, dict[str, Any]] = field(default_factory=dict)
    operations: int = 0


def read_register_history(paths: Iterable[Path], *, has_cas: bool) -> RegisterHistory:
    """Return the history of one or several files; lines are numbered through.

    Raises:
        HistoryError: It cannot be judged.
        OSError: A file cannot be read.
    """
    history, before = RegisterHistory(), 0
    busy: dict[int, tuple[float, int]] = {}
    for path in paths:
        last = 0
        for first, operations in read_lines(path):
            for number, each in enumerate(operations, first):
                _add(history, busy, before + number, each, has_cas=has_cas)
            last = first + len(operations) - 1
        before += last
    if not history.operations:
        raise HistoryError("nothing was read or written: there is nothing to judge")
    return history


def _add(
    history: RegisterHistory, busy: dict[int, tuple[float, int]], number: int, operation: Line, *, has_cas: bool
) -> None:
    if isinstance(operation, Fault):
        return
    if not isinstance(operation, REGISTER_OPERATIONS) or (isinstance(operation, Cas) and not has_cas):
        tag = operation.__struct_config__.tag
        raise HistoryError(f"line {number}: `{tag}` is not of this model ({'cas' if has_cas else 'register'})")
    ret = NEVER if operation.ret is None else operation.ret
    if ret < operation.inv:
        raise HistoryError(f"line {number}: the operation ends before it began")
    if operation.type == "ok" and operation.ret is None:
        raise HistoryError(f"line {number}: the operation is ok and has no `ret`")
    ended, former = busy.get(operation.proc, (0, 0))
    if ended > operation.inv:
        raise HistoryError(
            f"lines {former} and {number}: process {operation.proc} begins the second before the first has ended; each"
            " process's lines are in the order of time"
        )
    busy[operation.proc] = (operation.inv if operation.ret is None else operation.ret, number)
    history.operations += 1
    step = _step(history, number, operation)
    if step is not None:
        history.steps[operation.key].append(step)
        history.lines[number] = {"line": number} | msgspec.to_builtins(operation)


def _step(history: RegisterHistory, number: int, operation: Read | Write | Cas) -> Step | None:
    """Return what is to be explained; None where the outcome tells nothing."""
    if operation.type == "fail" or (operation.type == "info" and isinstance(operation, Read)):
        return None
    ret = NEVER if operation.type == "info" or operation.ret is None else operation.ret
    if isinstance(operation, Read):
        return Step(READ, _value(history, operation.out), 0, operation.inv, ret, number)
    if isinstance(operation, Write):
        return Step(WRITE, 0, _value(history, operation.value), operation.inv, ret, number)
    expected, new = (_value(history, each) for each in operation.value)
    if operation.type == "ok" and operation.out is None:
        raise HistoryError(f"line {number}: a cas that is ok has an `out`")
    # One without an answer either did nothing, as if it had never been, or what it was asked for.
    kind = CAS_REFUSED if operation.out is False and operation.type == "ok" else CAS_DONE
    return Step(kind, expected, new, operation.inv, ret, number)


def _value(history: RegisterHistory, value: Any) -> int:
    # By its JSON: 1, 1.0, true and "1" are four values.
    return NULL if value is None else history.values[msgspec.json.encode(value)]
