"""What is wrong with what transactions have read of lists, record by record."""

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from raftka.check.lists.history import Read
from raftka.check.lists.index import ListIndex, covered
from raftka.check.verdict import Anomaly, Report


class Case(NamedTuple):
    """One case: what orders it, the key, what is wrong, and the lines that prove it."""

    order: tuple[int, ...]
    key: str
    text: str
    lines: list[dict[str, Any]]


def add(report: Report, name: str, cases: list[Case], allowed: int = 0) -> None:
    """Note cases of one kind, and how many more were allowed."""
    cases = sorted(cases, key=lambda each: each.order)

    def describe(at: int) -> Anomaly:
        return Anomaly(cases[at].key, cases[at].text, cases[at].lines)

    report.add(name, np.arange(len(cases)), describe, order=lambda at: cases[at].order, allowed=allowed)


def check_sources(index: ListIndex, report: Report) -> None:
    """Report phantom, aborted-read and precommitted-read."""
    phantom: list[Case] = []
    aborted: list[Case] = []
    early: list[Case] = []

    def note(cases: list[Case], row: int, at: int, key: str, off: int, val: str, words: str) -> None:
        writer = index.writer.get((key, val))
        lines = [index.shown(each, (key, val)) for each in ([] if writer is None or writer == row else [writer])]
        text = f"{val!r} at offset {off} was read, {words}"
        cases.append(Case((index.rows[row].line, at), key, text, [*lines, index.shown(row, (key, val))]))

    for row, each in enumerate(index.rows):
        values = [(read.key, off, val) for read in each.reads for off, val in read.recs]
        for at, (key, off, val) in enumerate(values):
            writer = index.writer.get((key, val))
            if writer is None:
                note(phantom, row, at, key, off, val, "but never appended")
            elif index.rows[writer].type == "fail":
                note(aborted, row, at, key, off, val, "but its transaction was aborted")
            elif writer == row:
                note(early, row, at, key, off, val, "by the transaction that appended it, before it was committed")
            elif each.ret is not None and each.ret < index.rows[writer].asked:
                note(early, row, at, key, off, val, "before the commit of its transaction was asked for")
    add(report, "phantom", phantom)
    add(report, "aborted-read", aborted)
    add(report, "precommitted-read", early)


def check_places(index: ListIndex, report: Report) -> None:
    """Report inconsistent-offsets and duplicate."""
    changed: list[Case] = []
    repeated: list[Case] = []
    for number, (key, its) in enumerate(index.holdings.items()):
        for one, two in pairwise(its):
            if one.off == two.off:
                text = f"offset {one.off} holds {one.val!r} and {two.val!r}"
                lines = [index.shown(each.row, (key, each.val)) for each in (one, two)]
                changed.append(Case((number, one.off), key, text, lines))
        places: dict[str, int] = {}
        for at, each in enumerate(its):
            first = its[places.setdefault(each.val, at)]
            if first.off != each.off:
                text = f"{each.val!r} is at offset {first.off} and at offset {each.off}"
                lines = [index.shown(row, (key, each.val)) for row in (first.row, each.row)]
                repeated.append(Case((number, each.off), key, text, lines))
    add(report, "inconsistent-offsets", changed)
    add(report, "duplicate", repeated)


def check_steps(index: ListIndex, report: Report) -> None:
    """Report int-nonmonotonic-poll: within one read, offsets rise."""
    cases: list[Case] = []
    for row, each in enumerate(index.rows):
        for at, read in enumerate(each.reads):
            for (before, one), (after, two) in pairwise(read.recs):
                if after <= before:
                    text = f"process {each.proc} read offset {before} and then {after}"
                    lines = [index.shown(row, (read.key, one), (read.key, two))]
                    cases.append(Case((each.line, at, after), read.key, text, lines))
    add(report, "int-nonmonotonic-poll", cases)


def check_wholeness(index: ListIndex, report: Report) -> None:
    """Report torn-read, int-poll-skip and lost-write: a committed value that is missing where it has to be."""
    torn: list[Case] = []
    skipped: list[Case] = []
    lost: list[Case] = []
    told: set[tuple[str, str]] = set()
    for row, each in enumerate(index.rows):
        for read in each.reads:
            for off, val in _left_out(index, read):
                value = (read.key, val)
                told.add(value)
                where = f"at offset {off} of {read.key} is left out of a read of {_words(covered(read))}"
                ends = [(read.key, known) for at, known in read.recs if at in covered(read)]
                is_torn, case = _missing(index, value, where, (each.line, off), [index.shown(row, *ends)])
                (torn if is_torn else skipped).append(case)
    for row, each in enumerate(index.rows):
        if not index.is_committed(row):
            continue
        for append in each.appends:
            value = (append.key, append.val)
            if value in index.at_last or value in told:
                continue
            where = f"in {append.key} is in no final read"
            is_torn, case = _missing(index, value, where, (each.line, 0), [])
            (torn if is_torn else lost).append(case)
    add(report, "torn-read", torn)
    add(report, "int-poll-skip", skipped)
    add(report, "lost-write", lost)


def _left_out(index: ListIndex, read: Read) -> list[tuple[int, str]]:
    """Return the offsets and values between the ends of a read that everybody has to see, and that it does not have."""
    if not read.recs:
        return []
    first, last = covered(read)
    known = {off for off, _ in read.recs}
    due = index.due.get(read.key, [])
    begin = bisect_left(due, first, key=lambda each: each.off)
    end = bisect_right(due, last, key=lambda each: each.off)
    return [(each.off, each.val) for each in due[begin:end] if each.off not in known]


def _missing(
    index: ListIndex, value: tuple[str, str], where: str, order: tuple[int, ...], readers: list[dict[str, Any]]
) -> tuple[bool, Case]:
    """Return whether another value of its transaction was seen, and the case of a value that is missing."""
    key, val = value
    writer = index.writer[value]
    others = [(each.key, each.val) for each in index.rows[writer].appends if (each.key, each.val) != value]
    seen = next((each for each in others if each in index.first_read), None)
    lines = [index.shown(writer, value, *([] if seen is None else [seen]))]
    if seen is not None:
        lines.append(index.shown(index.first_read[seen], seen))
    lines += readers
    if seen is None:
        return False, Case(order, key, f"{val!r} of the committed transaction at {index.name(writer)} {where}", lines)
    text = (
        f"the transaction at {index.name(writer)} was read in part: {seen[1]!r} of {seen[0]} was read, and {val!r}"
        f" {where}"
    )
    return True, Case(order, key, text, lines)


def _words(ends: tuple[int, int]) -> str:
    return f"offsets {ends[0]} to {ends[1]}"
