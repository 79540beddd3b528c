"""Consume, transform, produce: each input is worked off by exactly one committed transaction of its consumer group.

A send says with `of` which input it was made of. A group works off a partition in the order of its offsets. So behind
an input whose output is committed, or below an offset that a committed transaction has committed for the group, no
input may be without an output. The first input that any send of the group names is taken for the group's beginning.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from raftka.check.log.columns import NEVER, OK, UNKNOWN, Flags, Numbers
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import record_line, send_line
from raftka.check.transactions.evidence import end_lines, late_words
from raftka.check.transactions.view import TransactionView
from raftka.check.verdict import Anomaly, Report

# (partition by number, consumer group)
Stream = tuple[int, str]


@dataclass(slots=True)
class Work:
    """What a group did in one input partition.

    Attributes:
        begin: The first offset that any send names.
        end: Behind the last input that is certainly worked off.
        outputs: For each input that has a visible output, the rows of the sends.
        proof: What tells `end`: the row of a send, or of an end in `Transactions.ends`.
    """

    begin: int
    end: int = 0
    outputs: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    proof: tuple[str, int] = ("", UNKNOWN)

    def reaches(self, end: int, proof: tuple[str, int]) -> None:
        """Note how far the group certainly came."""
        if end > self.end:
            self.end, self.proof = end, proof


def check_inputs(index: LogIndex, report: Report) -> None:
    """Report lost-input and doubled-input."""
    view = index.transactions
    if view is None or not index.history.transactions.inputs:
        return
    works = _works(index, view)
    _check_doubled(index, view, works, report)
    _check_lost(index, works, report)


def input_rows(index: LogIndex) -> Numbers:
    """Return for each of the history's inputs the row of its send."""
    lines = np.array([each.line for each in index.history.transactions.inputs], np.int64)
    return np.searchsorted(index.history.sends.line, lines)


def visible_outputs(index: LogIndex, view: TransactionView) -> Flags:
    """For each send whether it is in a transaction and read_committed shows it: by promise, or as somebody has seen."""
    flags: Flags = (index.history.sends.type == OK) & (view.send_txn != UNKNOWN)
    flags[index.send_of[view.record_txn != UNKNOWN]] = True
    return flags


def _works(index: LogIndex, view: TransactionView) -> dict[Stream, Work]:
    history = index.history
    numbers = {name: number for number, name in enumerate(history.partitions)}
    is_visible = visible_outputs(index, view)
    works: dict[Stream, Work] = {}
    for given, row in zip(history.transactions.inputs, input_rows(index).tolist(), strict=True):
        if given.tp not in numbers:
            # Nobody has written or read it here: nothing is known of its records.
            numbers[given.tp] = len(numbers)
        stream = (numbers[given.tp], given.group)
        work = works.setdefault(stream, Work(given.off))
        work.begin = min(work.begin, given.off)
        if is_visible[row]:
            work.outputs[given.off].append(row)
            work.reaches(given.off + 1, ("send", row))
    txns = {name: number for number, name in enumerate(history.transactions.names)}
    for row, (_, end) in enumerate(history.transactions.ends):
        if end.txn is None or end.do != "commit" or not view.is_committed[txns[end.txn]]:
            continue
        for tp, offset in end.offsets.items():
            work_of = works.get((numbers.get(tp, UNKNOWN), end.group))
            if work_of is not None:
                work_of.reaches(offset, ("end", row))
    return works


def _check_doubled(index: LogIndex, view: TransactionView, works: dict[Stream, Work], report: Report) -> None:
    """One transaction may make several records of an input; two transactions may not."""
    history, sends = index.history, index.history.sends
    pairs: list[tuple[Stream, int, int, int]] = []
    for stream, work in works.items():
        for offset, rows in work.outputs.items():
            first = min(rows)
            others = [row for row in rows if view.send_txn[row] != view.send_txn[first]]
            if others:
                pairs.append((stream, offset, first, min(others)))
    pairs.sort(key=lambda each: (sends.line[each[3]], sends.line[each[2]]))

    def describe(at: int) -> Anomaly:
        (tp, group), offset, first, second = pairs[at]
        one, two = (int(view.send_txn[row]) for row in (first, second))
        names = history.transactions.names
        text = (
            f"input {offset} of {_partition(index, tp)} was worked off twice{_of_group(group)}: {_value(index, first)}"
            f" of transaction {names[one]!r} and {_value(index, second)} of transaction {names[two]!r} are both visible"
        )
        late = [int(view.outcomes.late[txn]) for txn in (one, two)]
        text += next((late_words(history, row) for row in late if row != UNKNOWN), "")
        lines = [send_line(history, first), send_line(history, second)]
        lines += end_lines(history, *late, *(int(view.outcomes.end[txn]) for txn in (one, two)))
        return Anomaly(_partition(index, tp), text, lines)

    report.add("doubled-input", np.arange(len(pairs)), describe, order=_line_of(sends.line, [row for *_, row in pairs]))


def _check_lost(index: LogIndex, works: dict[Stream, Work], report: Report) -> None:
    history, records = index.history, index.history.records
    is_due = _due_records(index)
    cases: list[tuple[Stream, Work, int]] = []
    for stream, work in works.items():
        rows = np.flatnonzero(is_due & (records.tp == stream[0]))
        # No record lies at the largest offset that a line may name.
        rows = rows[(records.off[rows] >= work.begin) & (records.off[rows] < min(work.end, NEVER))]
        # Each offset once, by the record that was first read of it.
        offsets, at = np.unique(records.off[rows], return_index=True)
        missing = [each for each, offset in enumerate(offsets.tolist()) if offset not in work.outputs]
        cases += [(stream, work, int(rows[at[each]])) for each in missing]
    line = history.polls.line
    cases.sort(key=lambda each: (int(line[records.poll[each[2]]]), int(records.off[each[2]]), each[0]))

    def describe(at: int) -> Anomaly:
        (tp, group), work, row = cases[at]
        kind, proof = work.proof
        if kind == "send":
            reason = f"{_value(index, proof)}, made of a later input, is visible"
            lines = [record_line(history, row), send_line(history, proof)]
        else:
            name = history.transactions.ends[proof][1].txn
            reason = f"transaction {name!r} has committed offset {work.end}"
            lines = [record_line(history, row), *end_lines(history, proof)]
        value = history.values[records.val[row]]
        text = (
            f"input {records.off[row]} of {_partition(index, tp)}, {value!r}, has no visible output{_of_group(group)},"
            f" and {reason}"
        )
        return Anomaly(_partition(index, tp), text, lines)

    report.add(
        "lost-input",
        np.arange(len(cases)),
        describe,
        order=lambda at: (line[records.poll[cases[at][2]]], records.off[cases[at][2]]),
    )


def _due_records(index: LogIndex) -> Flags:
    """For each polled record whether a group at read_committed gets it, too: it is there for all, and not trimmed."""
    view, records = index.transactions, index.history.records
    assert view is not None
    known = index.send_of != UNKNOWN
    flags: Flags = index.is_ok_record & known & (records.off >= index.trim[records.tp])
    flags[known] &= ~view.is_hidden[index.send_of[known]]
    return flags


def _line_of(lines: Numbers, rows: Iterable[int]) -> Callable[[int], tuple[int, ...]]:
    chosen = list(rows)
    return lambda at: (lines[chosen[at]],)


def _partition(index: LogIndex, tp: int) -> str:
    names = index.history.partitions
    if tp < len(names):
        return names[tp]
    others = dict.fromkeys(each.tp for each in index.history.transactions.inputs if each.tp not in names)
    return list(others)[tp - len(names)]


def _of_group(group: str) -> str:
    return f" by group {group!r}" if group else ""


def _value(index: LogIndex, row: int) -> str:
    sends = index.history.sends
    return f"{index.history.values[sends.val[row]]!r} in {index.history.partitions[sends.tp[row]]}"
