"""Collects what the lines of a log history say of transactions, in any number of pieces."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from raftka.check.errors import HistoryError
from raftka.check.log.columns import UNKNOWN, Input, Numbers, Transactions
from raftka.check.operations import Poll, Send, Txn
from raftka.check.places import Places


def _numbers() -> defaultdict[str, int]:
    return defaultdict(count().__next__)


@dataclass(slots=True)
class TransactionMarks:
    """Takes lines, in their order; `build` returns what all of them say."""

    _names: defaultdict[str, int] = field(default_factory=_numbers)
    _ends: list[tuple[int, Txn]] = field(default_factory=list)
    _inputs: list[Input] = field(default_factory=list)
    # (line, transaction)
    _sends: list[tuple[int, int]] = field(default_factory=list)
    # (line, is at read_committed, last stable offset, transaction)
    _polls: list[tuple[int, int, int, int]] = field(default_factory=list)

    def add_ends(self, places: Places, lines: Sequence[int], ends: Sequence[Txn]) -> None:
        """Take `txn` lines.

        Raises:
            HistoryError: One is of another model, or contradicts itself.
        """
        for line, each in zip(lines, ends, strict=True):
            if each.txn is None or each.do is None:
                raise HistoryError(
                    f"{places.name(line)}: a `txn` of a log has `txn` and `do`; one that has `ops` is of a history of"
                    " lists: --model append"
                )
            check_times(places, line, each)
            # It may be the only line that names the transaction.
            self._names[each.txn]
            self._ends.append((line, each))

    def add_sends(self, lines: Sequence[int], sends: Sequence[Send]) -> None:
        """Take sends; most histories have none that says anything of transactions."""
        for line, each in zip(lines, sends, strict=True):
            if each.txn is not None:
                self._sends.append((line, self._names[each.txn]))
            if each.of is not None:
                self._inputs.append(Input(line, *each.of, each.group))

    def add_polls(self, lines: Sequence[int], polls: Sequence[Poll]) -> None:
        """Take polls, as sends."""
        for line, each in zip(lines, polls, strict=True):
            if each.iso is None and each.lso is None and each.txn is None:
                continue
            txn = UNKNOWN if each.txn is None else self._names[each.txn]
            lso = UNKNOWN if each.lso is None else each.lso
            self._polls.append((line, int(each.iso == "read_committed"), lso, txn))

    def build(self) -> Transactions:
        """Return what all lines say."""
        sends = np.array(self._sends, np.int64).reshape(-1, 2).T
        polls = np.array(self._polls, np.int64).reshape(-1, 4).T
        return Transactions(list(self._names), self._ends, self._inputs, *sends, *polls)


def check_times(places: Places, line: int, operation: Txn) -> None:
    """Refuse an operation that contradicts itself.

    Raises:
        HistoryError: It ends before it began, or happened and has no end.
    """
    if operation.ret is not None and operation.ret < operation.inv:
        raise HistoryError(f"{places.name(line)}: the operation ends before it began")
    if operation.type == "ok" and operation.ret is None:
        raise HistoryError(f"{places.name(line)}: the operation is ok and has no `ret`")


def united_marks(pieces: Sequence[Transactions]) -> Transactions:
    """Return what parts of a history say together, in their order."""
    numbers = _numbers()
    renamed = []
    for each in pieces:
        its = np.array([numbers[name] for name in each.names], np.int64)
        renamed.append((_renumbered(its, each.send_txn), _renumbered(its, each.poll_txn)))
    return Transactions(
        list(numbers),
        [end for each in pieces for end in each.ends],
        [given for each in pieces for given in each.inputs],
        _joined([each.send_line for each in pieces]),
        _joined([sends for sends, _ in renamed]),
        _joined([each.poll_line for each in pieces]),
        _joined([each.poll_iso for each in pieces]),
        _joined([each.poll_lso for each in pieces]),
        _joined([polls for _, polls in renamed]),
    )


def _renumbered(numbers: Numbers, txns: Numbers) -> Numbers:
    if not len(numbers):
        return txns
    return np.where(txns == UNKNOWN, UNKNOWN, numbers[np.maximum(txns, 0)])


def _joined(pieces: Sequence[Numbers]) -> Numbers:
    return np.concatenate([np.zeros(0, np.int64), *pieces])
