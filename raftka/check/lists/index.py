"""What the checks of lists share: who appended what, what lies where, and which transactions are committed."""

from collections import defaultdict
from functools import cached_property
from typing import Any, NamedTuple

from raftka.check.lists.history import ListHistory, Read, Transaction


class Holding(NamedTuple):
    """One value at an offset of a key, and the row of the transaction that says so."""

    off: int
    val: str
    row: int


class ListIndex:
    """Derived look-ups of a history that can be judged; transactions are named by their row."""

    def __init__(self, history: ListHistory) -> None:
        self.history = history
        self.rows = history.transactions
        self.writer: dict[tuple[str, str], int] = {
            (append.key, append.val): row for row, each in enumerate(self.rows) for append in each.appends
        }

    @cached_property
    def first_read(self) -> dict[tuple[str, str], int]:
        """By key and value the first transaction that has read it."""
        found: dict[tuple[str, str], int] = {}
        for row, each in enumerate(self.rows):
            for read in each.reads:
                for _, val in read.recs:
                    found.setdefault((read.key, val), row)
        return found

    @cached_property
    def seen(self) -> dict[int, tuple[str, str]]:
        """By transaction the first of its appends that another one has read; those that nobody has seen are absent."""
        found: dict[int, tuple[str, str]] = {}
        for value in self.first_read:
            if value in self.writer:
                found.setdefault(self.writer[value], value)
        return found

    def is_committed(self, row: int) -> bool:
        """Whether a transaction is committed: it was told so, or nobody knows and somebody has seen it."""
        kind = self.rows[row].type
        return kind == "ok" or (kind == "info" and row in self.seen)

    @cached_property
    def holdings(self) -> dict[str, list[Holding]]:
        """By key what reads and acknowledged appends say that it holds, each word once, by offset."""
        found: dict[str, dict[tuple[int, str], Holding]] = defaultdict(dict)
        for row, each in enumerate(self.rows):
            for read in each.reads:
                for off, val in read.recs:
                    found[read.key].setdefault((off, val), Holding(off, val, row))
            if self.is_committed(row):
                for append in each.appends:
                    if append.off is not None:
                        found[append.key].setdefault((append.off, append.val), Holding(append.off, append.val, row))
        return {key: sorted(its.values(), key=lambda each: each.off) for key, its in found.items()}

    @cached_property
    def due(self) -> dict[str, list[Holding]]:
        """By key what everybody has to see, by offset: values of committed transactions, each offset once."""
        found: dict[str, list[Holding]] = {}
        for key, its in self.holdings.items():
            by_offset: dict[int, Holding] = {}
            for each in its:
                writer = self.writer.get((key, each.val))
                if writer is not None and self.is_committed(writer):
                    by_offset.setdefault(each.off, each)
            found[key] = list(by_offset.values())
        return found

    @cached_property
    def at_last(self) -> set[tuple[str, str]]:
        """The keys and values that final reads have."""
        return {
            (read.key, val)
            for each in self.rows
            if each.is_final and each.type == "ok"
            for read in each.reads
            for _, val in read.recs
        }

    def name(self, row: int) -> str:
        """Return what a transaction is called: the place of its line."""
        return self.history.places.name(self.rows[row].line)

    def shown(self, row: int, *values: tuple[str, str]) -> dict[str, Any]:
        """Return a transaction as its line; only operations that have to do with these keys and values are shown."""
        each = self.rows[row]
        return self.history.places.of(each.line) | {
            "f": "txn",
            "type": each.type,
            "proc": each.proc,
            "inv": each.inv,
            "ret": each.ret,
            "ops": _operations(each, set(values)),
        }


def _operations(transaction: Transaction, values: set[tuple[str, str]]) -> list[list[Any]]:
    shown: list[list[Any]] = [
        ["append", *append] for append in transaction.appends if (append.key, append.val) in values
    ]
    for read in transaction.reads:
        recs = [[off, val] for off, val in read.recs if (read.key, val) in values]
        if recs:
            shown.append(["read", read.key, recs])
    return shown


def covered(read: Read) -> tuple[int, int]:
    """Return the first and the last offset of a read that is not empty."""
    offsets = [off for off, _ in read.recs]
    return min(offsets), max(offsets)
