"""A log history taken apart and put together again: parts of its files, and what each part has of each partition.

Everything that is judged of a log is judged partition by partition. What reaches over partitions is little, and every
piece gets all of it (`Shared`); who did two things at a time is found between the parts (`contradictions`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from raftka.check.history_file import Part, read_lines
from raftka.check.log.builder import LogHistoryBuilder, collector_paused, renumbered, retentions, trimmed
from raftka.check.log.columns import UNKNOWN, Latests, LogHistory, Numbers, Polls, Records, Sends, Transactions
from raftka.check.log.contradictions import ProcessEnds
from raftka.check.operations import Assign, Compact, Seek, Subscribe, Trim
from raftka.check.places import Places
from raftka.check.sorting import stable_order
from raftka.check.transactions.marks import united_marks

Rows = TypeVar("Rows", Sends, Polls, Records, Latests)
Lines = TypeVar("Lines", Sends, Latests)


@dataclass(frozen=True, slots=True)
class LogPart:
    """What the whole history needs of one part of it.

    Attributes:
        partitions: In the order in which they appear.
        sizes: By partition: how many records were sent, and how many operations there are.
        trims: With their lines.
        offset: The largest offset of a record or an answer.
        processes: What each process did.
        transactions: What it says of them.
        compactions: What it says of compacted partitions.
    """

    partitions: list[str]
    sizes: dict[str, tuple[int, int]]
    moves: list[tuple[int, Assign | Subscribe | Seek]]
    trims: list[tuple[int, Trim]]
    power_losses: list[int]
    offset: int
    processes: ProcessEnds
    transactions: Transactions
    compactions: list[Compact]


@dataclass(frozen=True, slots=True)
class Shared:
    """What all pieces of a history have in common: see `LogHistory`."""

    partitions: list[str]
    moves: list[tuple[int, Assign | Subscribe | Seek]]
    trims: dict[int, int]
    deletions: list[tuple[int, Trim]]
    power_losses: list[int]
    places: Places
    transactions: Transactions
    compacted: dict[int, int]

    @classmethod
    def of(cls, parts: Sequence[LogPart], places: Places) -> Self:
        """Return what parts, in order, have in common."""
        numbers: dict[str, int] = {}
        for part in parts:
            for name in part.partitions:
                numbers.setdefault(name, len(numbers))
        trims = [each for part in parts for each in part.trims]
        for _, trim in trims:
            numbers.setdefault(trim.tp, len(numbers))
        compactions = [each for part in parts for each in part.compactions]
        for compaction in compactions:
            numbers.setdefault(compaction.tp, len(numbers))
        moves = [each for part in parts for each in part.moves]
        losses = sorted(each for part in parts for each in part.power_losses)
        ends, deletions = trimmed(trims, numbers)
        transactions = united_marks([part.transactions for part in parts])
        compacted = retentions(compactions, numbers)
        return cls(list(numbers), moves, ends, deletions, losses, places, transactions, compacted)

    def history(
        self, sends: Sends, polls: Polls, records: Records, latests: Latests, values: Sequence[str]
    ) -> LogHistory:
        """Return the history of these operations and of what all have in common."""
        return LogHistory(
            sends,
            polls,
            records,
            latests,
            self.partitions,
            values,
            self.moves,
            self.trims,
            self.deletions,
            self.power_losses,
            self.places,
            self.transactions,
            self.compacted,
        )


def read_part(path: Path, part: Part, before: int, places: Places) -> tuple[LogPart, dict[str, LogHistory]]:
    """Return what a part of a file says, and of each partition what it has of it.

    Raises:
        HistoryError: A line is wrong.
        OSError: The file cannot be read.
    """
    builder = LogHistoryBuilder(places)
    with collector_paused():
        for first, operations in read_lines(path, part):
            builder.add(before + first, operations)
    partitions = builder.partitions
    history = builder.build_part()
    pieces = split(history)
    summary = LogPart(
        partitions,
        {name: (len(piece.sends), piece.operations) for name, piece in pieces.items()},
        history.moves,
        builder.trims,
        history.power_losses,
        history.largest_offset,
        ProcessEnds.of(history),
        history.transactions,
        builder.compactions,
    )
    return summary, pieces


def split(history: LogHistory) -> dict[str, LogHistory]:
    """Return what a history has of each partition, without what all have in common."""
    count = len(history.partitions)
    sends, polls = _by_partition(history.sends, count), _by_partition(history.polls, count)
    records, latests = _by_partition(history.records, count), _by_partition(history.latests, count)
    pieces = {}
    for tp, name in enumerate(history.partitions):
        if not (len(sends[tp]) or len(polls[tp]) or len(latests[tp])):
            continue
        keys = sends[tp].key[sends[tp].key != UNKNOWN]
        known, numbers = np.unique(np.concatenate([sends[tp].val, records[tp].val, keys]), return_inverse=True)
        key = np.where(sends[tp].key == UNKNOWN, UNKNOWN, np.searchsorted(known, sends[tp].key))
        poll = np.repeat(np.arange(len(polls[tp])), polls[tp].size)
        pieces[name] = LogHistory(
            replace(sends[tp], val=numbers[: len(sends[tp])], tp=np.zeros(len(sends[tp]), np.int64), key=key),
            replace(polls[tp], tp=np.zeros(len(polls[tp]), np.int64)),
            replace(
                records[tp], val=numbers[len(sends[tp]) :][: len(poll)], tp=np.zeros(len(poll), np.int64), poll=poll
            ),
            replace(latests[tp], tp=np.zeros(len(latests[tp]), np.int64)),
            [name],
            [history.values[number] for number in known.tolist()],
            [],
            {},
            [],
            [],
            Places(),
        )
    return pieces


def joined(pieces: Iterable[LogHistory], shared: Shared) -> LogHistory:
    """Return the history of pieces, each of one partition; those of one partition are in the order of their lines."""
    numbers = {name: number for number, name in enumerate(shared.partitions)}
    values: dict[str, int] = {}
    sends, polls, records, latests = [], [], [], []
    before = 0
    for piece in pieces:
        tp = numbers[piece.partitions[0]]
        its = np.fromiter((values.setdefault(each, len(values)) for each in piece.values), np.int64, len(piece.values))
        key = renumbered(its, piece.sends.key)
        sends.append(replace(piece.sends, val=its[piece.sends.val], tp=_same(tp, piece.sends), key=key))
        polls.append(replace(piece.polls, tp=_same(tp, piece.polls)))
        of_poll = piece.records.poll + before
        records.append(replace(piece.records, val=its[piece.records.val], tp=_same(tp, piece.records), poll=of_poll))
        latests.append(replace(piece.latests, tp=_same(tp, piece.latests)))
        before += len(piece.polls)
    all_polls = united(polls, Polls)
    all_records = united(records, Records)
    order = by_line(all_polls.line)
    if order is not None:
        all_records = _with_polls_in(order, all_polls, all_records)
        all_polls = chosen(all_polls, order)
    return shared.history(
        _in_order(united(sends, Sends)),
        all_polls,
        all_records,
        _in_order(united(latests, Latests)),
        list(values),
    )


def chosen(rows: Rows, which: Numbers) -> Rows:
    """Return some rows."""
    return type(rows)(**{name: getattr(rows, name)[which] for name in type(rows).__dataclass_fields__})


def united(tables: Sequence[Rows], kind: type[Rows]) -> Rows:
    """Return the rows of several tables as one."""
    return kind(**{name: _united(tables, name) for name in kind.__dataclass_fields__})


def by_line(lines: Numbers) -> Numbers | None:
    """Return the order that sorts rows by line; None: they are in order."""
    return np.argsort(lines, kind="stable") if len(lines) and (np.diff(lines) < 0).any() else None


def _united(tables: Sequence[Any], name: str) -> Numbers:
    return np.concatenate([np.zeros(0, np.int64), *(getattr(each, name) for each in tables)])


def _in_order(rows: Lines) -> Lines:
    order = by_line(rows.line)
    return rows if order is None else chosen(rows, order)


def _with_polls_in(order: Numbers, polls: Polls, records: Records) -> Records:
    """Return the records of polls that are put in another order."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    moved = replace(records, poll=rank[records.poll])
    return chosen(moved, np.argsort(moved.poll, kind="stable"))


def _by_partition(rows: Rows, count: int) -> list[Rows]:
    order = stable_order(rows.tp)
    bounds = np.searchsorted(rows.tp[order], np.arange(count + 1))
    return [chosen(rows, order[begin:end]) for begin, end in pairwise(bounds.tolist())]


def _same(tp: int, rows: Rows) -> Numbers:
    return np.full(len(rows), tp, np.int64)
