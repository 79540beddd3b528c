"""What read_committed must not show: records that were aborted or not yet decided, and parts of a transaction.

A transaction whose end nobody knows may be committed or aborted. Once somebody has seen it at read_committed it is
committed, for all readers.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from raftka.check.log.columns import NEVER, OK, UNKNOWN, Flags, LogHistory, Numbers
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import poll_line, record_line, record_order, send_line
from raftka.check.running import take
from raftka.check.transactions.evidence import end_lines, late_words
from raftka.check.transactions.outcomes import ABORTED
from raftka.check.transactions.view import TransactionView
from raftka.check.verdict import Anomaly, Report


def check_reads(index: LogIndex, report: Report) -> None:
    """Report aborted-read, precommitted-read and torn-read."""
    view = index.transactions
    if view is None:
        return
    history = index.history

    def told(words: Callable[[int, str], str], row: int) -> Anomaly:
        txn = int(view.record_txn[row])
        why = words(txn, history.transactions.names[txn]) + late_words(history, view.outcomes.late[txn])
        text = f"{_value(history, row)} was polled at read_committed, {why}"
        lines = [send_line(history, int(index.send_of[row])), record_line(history, row)]
        lines += end_lines(history, int(view.outcomes.late[txn]), int(view.outcomes.end[txn]))
        return Anomaly(history.partitions[history.records.tp[row]], text, lines)

    def aborted(_: int, name: str) -> str:
        return f"but its transaction {name!r} was aborted"

    def early(txn: int, name: str) -> str:
        if view.outcomes.end[txn] == UNKNOWN:
            return f"but nobody had asked for the commit of its transaction {name!r}"
        return f"before the commit of its transaction {name!r} was asked for"

    order = partial(record_order, history)
    report.add("aborted-read", aborted_reads(view), partial(told, aborted), order=order)
    report.add("precommitted-read", early_reads(history, view), partial(told, early), order=order)
    _check_torn(index, view, report)


def aborted_reads(view: TransactionView) -> Numbers:
    """Return the records that were returned at read_committed and whose transaction was aborted."""
    return np.flatnonzero(take(view.outcomes.state, view.record_txn, UNKNOWN) == ABORTED)


def early_reads(history: LogHistory, view: TransactionView) -> Numbers:
    """Return the records that were returned at read_committed before their commit was asked for."""
    is_aborted = take(view.outcomes.state, view.record_txn, UNKNOWN) == ABORTED
    asked = take(view.outcomes.asked, view.record_txn, UNKNOWN)
    ended = history.polls.ret[history.records.poll]
    return np.flatnonzero((view.record_txn != UNKNOWN) & ~is_aborted & (ended < asked))


def exposed(index: LogIndex) -> int:
    """Count the transactions that a late end of their own producer may have hit, and that are read as they must not."""
    view = index.transactions
    assert view is not None
    records = np.concatenate([aborted_reads(view), early_reads(index.history, view)])
    torn, _ = _torn(index, view)
    txns = np.unique(np.concatenate([view.record_txn[records], view.send_txn[torn]]))
    return int((view.outcomes.late[txns] != UNKNOWN).sum())


def _check_torn(index: LogIndex, view: TransactionView, report: Report) -> None:
    history, sends = index.history, index.history.sends
    torn, gaps = _torn(index, view)
    is_excused = index.is_excused(torn)
    # Of each transaction the first record that was seen.
    rows = np.flatnonzero(view.record_txn != UNKNOWN)[::-1]
    first = np.full(len(view.seen), UNKNOWN)
    first[view.record_txn[rows]] = rows

    def describe(row: int) -> Anomaly:
        txn = int(view.send_txn[row])
        seen = int(first[txn])
        name = history.transactions.names[txn]
        missing = repr(history.values[sends.val[row]])
        where = "is in no final read"
        lines = [send_line(history, row), record_line(history, seen)]
        if row in gaps:
            before, after = gaps[row]
            where = f"was left out between offsets {history.records.off[before]} and {history.records.off[after]}"
            one, two = (int(history.records.poll[each]) for each in (before, after))
            if one == two:
                lines.append(poll_line(history, one, before, after))
            else:
                lines += [poll_line(history, one, before), poll_line(history, two, after)]
        how = "by one process and not by another" if index.send_of[seen] == row else "in part"
        text = (
            f"transaction {name!r} was read {how}: {_value(history, seen)} was polled at read_committed, and"
            f" {missing} in {history.partitions[sends.tp[row]]} {where}{late_words(history, view.outcomes.late[txn])}"
        )
        lines += end_lines(history, int(view.outcomes.late[txn]), int(view.outcomes.end[txn]))
        return Anomaly(history.partitions[sends.tp[row]], text, lines)

    report.add(
        "torn-read",
        torn[~is_excused],
        describe,
        order=lambda row: (sends.line[row],),
        allowed=int(is_excused.sum()),
    )


def _torn(index: LogIndex, view: TransactionView) -> tuple[Numbers, dict[int, tuple[int, int]]]:
    """Return (sends that are missing where others of their transaction were seen, the gap in which one was left out).

    A gap is two records that a process at read_committed got one after the other. Sends that only the final reads miss
    have none.
    """
    sends = index.history.sends
    is_part = np.zeros(len(sends), np.bool_)
    rows = np.flatnonzero((view.send_txn != UNKNOWN) & (sends.type == OK))
    is_part[rows] = (view.seen & view.is_committed)[view.send_txn[rows]]
    is_trimmed = (index.place != UNKNOWN) & (index.place < index.trim[sends.tp])
    if index.supersessions is not None:
        # What compaction may ever take is judged by the other readers' skips and by the final reads.
        is_part &= index.supersessions.skippable == NEVER
    is_lost: Flags = is_part & ~index.read_at_last & ~is_trimmed & view.is_read_committed_at_last[sends.tp]
    gaps = _left_out(index, view, is_part & ~is_trimmed)
    is_lost[np.array(sorted(gaps), np.int64)] = True
    return np.flatnonzero(is_lost), gaps


def _left_out(index: LogIndex, view: TransactionView, is_part: Flags) -> dict[int, tuple[int, int]]:
    """Return of the sends that a process left out at read_committed the first gap in which it did."""
    history, polls, records = index.history, index.history.polls, index.history.records
    is_reader = (polls.type == OK) & (polls.size > 0) & view.is_committed_poll
    within = np.flatnonzero((np.diff(records.poll) == 0) & is_reader[records.poll[:-1]])
    one, two = index.sessions.pairs(is_reader)
    is_assigned = ~index.sessions.is_subscribed[two]
    one, two = one[is_assigned], two[is_assigned]
    before = np.concatenate([within, polls.first[one] + polls.size[one] - 1])
    after = np.concatenate([within + 1, polls.first[two]])
    placed = index.placed[is_part[index.placed]]
    keys = history.key(history.sends.tp[placed], index.place[placed])
    begin = np.searchsorted(keys, index.record_key[before], side="right")
    end = np.searchsorted(keys, index.record_key[after])
    found: dict[int, tuple[int, int]] = {}
    for gap in np.flatnonzero(begin < end).tolist():
        for send in placed[begin[gap] : end[gap]].tolist():
            found.setdefault(send, (int(before[gap]), int(after[gap])))
    return found


def _value(history: LogHistory, record: int) -> str:
    return f"{history.values[history.records.val[record]]!r} at offset {history.records.off[record]}"
