"""How each transaction ended, as its own producer knows it, and which ends of an older protocol may have hit it.

Below version 5 of EndTxn (KIP-890), a commit or an abort that was sent again may arrive after the producer has begun
its next transaction in the same epoch, and end that one. Such an end is counted, and named beside what it may have
done. It excuses nothing.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from raftka.check.log.columns import NEVER, UNKNOWN, Numbers, Transactions
from raftka.check.operations import Txn

# OPEN: nobody has asked for an end. ABORTED: certainly not committed. UNSURE: committed or not.
OPEN, ABORTED, UNSURE, COMMITTED = range(4)

# The first version of EndTxn whose requests name one transaction only: each end raises the producer's epoch.
FENCED_VERSION = 5


@dataclass(frozen=True, slots=True)
class Outcomes:
    """One row per transaction.

    Attributes:
        state: OPEN, ABORTED, UNSURE or COMMITTED.
        asked: When its commit was first asked for; NEVER: it was not.
        end: The row in `ends` of the line that tells the state, or UNKNOWN.
        late: The row in `ends` of an earlier end of the same producer that may have hit it, or UNKNOWN.
    """

    state: Numbers
    asked: Numbers
    end: Numbers
    late: Numbers

    @classmethod
    def of(cls, marks: Transactions) -> Self:
        """Return how the transactions of a history ended."""
        numbers = {name: number for number, name in enumerate(marks.names)}
        by_txn: list[list[int]] = [[] for _ in marks.names]
        for row, (_, each) in enumerate(marks.ends):
            by_txn[numbers[each.txn or ""]].append(row)
        told = [_told([(row, marks.ends[row][1]) for row in rows]) for rows in by_txn]
        state, asked, end = np.array(told, np.int64).reshape(-1, 3).T
        return cls(state, asked, end, _late(marks, by_txn))


def _told(lines: list[tuple[int, Txn]]) -> tuple[int, int, int]:
    """Return (state, when the commit was asked for, row that tells the state) of one transaction's lines."""
    commits = [(row, each) for row, each in lines if each.do == "commit"]
    aborts = [(row, each) for row, each in lines if each.do == "abort"]
    asked = min((each.inv for _, each in commits), default=NEVER)
    for row, each in commits:
        if each.type == "ok":
            return COMMITTED, asked, row
    for row, each in aborts:
        if each.type == "ok":
            return ABORTED, asked, row
    for row, each in commits:
        if each.type == "info":
            return UNSURE, asked, row
    # Nobody has asked for a commit that may have happened: it is aborted, now or when its time is over.
    for row, _ in [*aborts, *commits]:
        return ABORTED, asked, row
    return OPEN, asked, UNKNOWN


def _late(marks: Transactions, by_txn: list[list[int]]) -> Numbers:
    """Return for each transaction the last earlier end of its producer that may have hit it."""
    late = np.full(len(by_txn), UNKNOWN)
    producers: dict[str, list[tuple[int, int]]] = {}
    for txn, rows in enumerate(by_txn):
        its = [marks.ends[row][1] for row in rows]
        for name in sorted({each.id for each in its if each.id is not None}):
            producers.setdefault(name, []).append((min(each.inv for each in its), txn))
    for began in producers.values():
        resent = UNKNOWN
        for _, txn in sorted(began):
            if resent != UNKNOWN and _is_same_epoch(marks, resent, by_txn[txn]):
                late[txn] = resent
            again = [row for row in by_txn[txn] if _may_be_late(marks.ends[row][1], marks, by_txn[txn])]
            resent = again[-1] if again else resent
    return late


def _may_be_late(end: Txn, marks: Transactions, rows: list[int]) -> bool:
    """Return whether a copy of this end may still be on its way when the next transaction begins."""
    if end.do == "begin" or end.version is None or end.version >= FENCED_VERSION:
        return False
    asked = sum(marks.ends[row][1].do == end.do for row in rows)
    return end.attempts > 1 or asked > 1 or end.type == "info"


def _is_same_epoch(marks: Transactions, resent: int, rows: list[int]) -> bool:
    epoch = marks.ends[resent][1].epoch
    known = {marks.ends[row][1].epoch for row in rows} - {None}
    return epoch is None or not known or epoch in known
