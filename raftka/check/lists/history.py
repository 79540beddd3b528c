"""Histories of transactions over lists: lines with `f` = `txn` and the operations of a whole transaction in `ops`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from raftka.check.errors import HistoryError
from raftka.check.history_file import read_lines
from raftka.check.operations import Fault, Line, Txn
from raftka.check.places import Places
from raftka.check.transactions.marks import check_times

_OFFSET_MAX = 2**63 - 1
_SHOWN = 3


class Append(NamedTuple):
    """One value that a transaction appended to a key; `off` is the acknowledged offset, or None."""

    key: str
    val: str
    off: int | None


class Read(NamedTuple):
    """What one read of a key returned: offsets with their values."""

    key: str
    recs: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Transaction:
    """One line.

    Attributes:
        asked: When its commit was asked for; without a word of that, when it began.
        ret: When it ended, or None.
        is_final: Whether its reads are those at the end, which have everything.
    """

    line: int
    type: str
    proc: int
    inv: int
    ret: int | None
    asked: int
    is_final: bool
    appends: list[Append]
    reads: list[Read]


@dataclass(slots=True)
class ListHistory:
    """All transactions, in the order of the lines.

    Attributes:
        transactions: They.
        places: Which line of which file a line is.
    """

    transactions: list[Transaction] = field(default_factory=list)
    places: Places = field(default_factory=Places)
    # Of each process its last line, and when that ended.
    _busy: dict[int, tuple[int, int]] = field(default_factory=dict)
    # Who appended each value to each key.
    _appended: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def operations(self) -> int:
        """How many values were appended or read."""
        return sum(len(each.appends) + sum(len(read.recs) for read in each.reads) for each in self.transactions)

    def take(self, line: int, operation: Line) -> None:
        """Take the next line; faults say nothing of lists.

        Raises:
            HistoryError: It is of another model, or contradicts itself or an earlier one.
        """
        if isinstance(operation, Fault):
            return
        if not isinstance(operation, Txn) or operation.ops is None:
            tag = operation.__struct_config__.tag
            raise HistoryError(f"{self.places.name(line)}: `{tag}` without `ops` is not of this model: --model log")
        check_times(self.places, line, operation)
        self._check_process(line, operation)
        appends, reads = [], []
        for each in operation.ops:
            if (append := _append(each)) is not None:
                former = self._appended.setdefault((append.key, append.val), line)
                if former != line or append in appends:
                    raise HistoryError(
                        f"{self.places.name(former)} and {self.places.name(line)}: value {append.val!r} is appended"
                        f" twice to {append.key}; only values that are unique in their key can be told apart"
                    )
                appends.append(append)
            elif (read := _read(each)) is not None:
                reads.append(read)
            else:
                raise HistoryError(
                    f"{self.places.name(line)}: an operation of a transaction is"
                    ' ["append", key, value, offset or null] or ["read", key, [[offset, value], ...]]'
                )
        asked = operation.inv if operation.asked is None else operation.asked
        self.transactions.append(
            Transaction(
                line,
                operation.type,
                operation.proc,
                operation.inv,
                operation.ret,
                asked,
                operation.final,
                appends,
                reads,
            )
        )

    def check(self) -> None:
        """Refuse what proves nothing.

        Raises:
            HistoryError: Nothing was appended, or a key has no final read, or one that began too early.
        """
        appended = dict.fromkeys(append.key for each in self.transactions for append in each.appends)
        if not appended:
            raise HistoryError("nothing was appended: there is nothing to judge")
        finals: dict[str, int] = {}
        for each in self.transactions:
            if each.is_final and each.type == "ok":
                for read in each.reads:
                    finals[read.key] = max(finals.get(read.key, each.inv), each.inv)
        unread = [key for key in appended if key not in finals]
        if unread:
            shown = ", ".join(unread[:_SHOWN]) + (" and more" if len(unread) > _SHOWN else "")
            raise HistoryError(
                f"no final read of {shown}: what is missing from reads may have come later; read everything once more"
                ' after the faults, in transactions with "final": true'
            )
        for each in self.transactions:
            late = [append.key for append in each.appends if each.type == "ok" and (each.ret or 0) > finals[append.key]]
            if late:
                raise HistoryError(
                    f"{self.places.name(each.line)}: the final read of {late[0]} began before this transaction had"
                    " ended; read everything once more at the very end"
                )

    def _check_process(self, line: int, operation: Txn) -> None:
        ended, former = self._busy.get(operation.proc, (operation.inv, line))
        if ended > operation.inv:
            raise HistoryError(
                f"{self.places.name(former)} and {self.places.name(line)}: process {operation.proc} begins the second"
                " before the first has ended; each process's lines are in the order of time"
            )
        self._busy[operation.proc] = (operation.inv if operation.ret is None else operation.ret, line)


def read_list_history(
    paths: Iterable[Path], note: Callable[[int], None] | None = None, names: Sequence[str | None] | None = None
) -> ListHistory:
    """Return the history of one or several files, in the order given.

    Args:
        paths: The files.
        note: Called with numbers of bytes, as they are read.
        names: What each file is called when something is said of it; None: its path.

    Raises:
        HistoryError: It cannot be judged.
        OSError: A file cannot be read.
    """
    history, before = ListHistory(), 0
    for number, path in enumerate(paths):
        history.places.begin((names[number] if names else None) or str(path), before)
        last = 0
        for first, operations in read_lines(path, note=note):
            for line, each in enumerate(operations, before + first):
                history.take(line, each)
            last = first + len(operations) - 1
        before += last
    return history


def _append(operation: list[Any]) -> Append | None:
    match operation:
        case ["append", str(key), str(val)]:
            return Append(key, val, None)
        case ["append", str(key), str(val), off] if off is None or _is_offset(off):
            return Append(key, val, off)
    return None


def _read(operation: list[Any]) -> Read | None:
    match operation:
        case ["read", str(key), [*recs]]:
            pairs = [(each[0], each[1]) for each in recs if _is_record(each)]
            return Read(key, pairs) if len(pairs) == len(recs) else None
    return None


def _is_record(record: Any) -> bool:
    match record:
        case [off, str()] if _is_offset(off):
            return True
    return False


def _is_offset(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _OFFSET_MAX
