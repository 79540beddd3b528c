"""Transactions that have read each other's records: each would have had to be committed before the other (G1c).

An edge leads from a transaction to one that has read its record, by a poll that was made for it or by the input of a
record that it sent. Orders of writes make no edge: transactions of Kafka do not isolate writers from each other.
"""

from collections import defaultdict
from typing import Any

import numpy as np

from raftka.check.log.columns import UNKNOWN
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import record_line, send_line
from raftka.check.transactions.cycles import components, shortest_cycle
from raftka.check.transactions.evidence import end_lines
from raftka.check.transactions.inputs import input_rows
from raftka.check.transactions.outcomes import ABORTED
from raftka.check.transactions.view import TransactionView
from raftka.check.verdict import Anomaly, Report

# For each pair (who wrote, who read) the kind and the row of what shows it: a polled record, or a send with its input.
Edges = dict[tuple[int, int], tuple[str, int, int]]


def check_circular(index: LogIndex, report: Report) -> None:
    """Report circular-read, one case for each set of transactions that depend on each other."""
    view = index.transactions
    if view is None:
        return
    history = index.history
    edges = _edges(index, view)
    following: dict[int, list[int]] = defaultdict(list)
    for one, two in edges:
        following[one].append(two)
    cycles = [shortest_cycle(following, component) for component in components(following)]
    cycles = [_from_first_line(index, edges, cycle) for cycle in cycles]
    cycles.sort(key=lambda cycle: _line(index, edges, cycle))
    names = history.transactions.names

    def describe(at: int) -> Anomaly:
        cycle = cycles[at]
        pairs = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        steps, lines = [], []
        for one, two in pairs:
            kind, row, send = edges[one, two]
            value = history.values[history.sends.val[send]]
            steps.append(f"{names[two]!r} has read {value!r} of {names[one]!r}")
            lines += [send_line(history, send), _proof(index, kind, row)]
        lines += end_lines(history, *(int(view.outcomes.end[txn]) for txn in cycle))
        tp = history.partitions[history.sends.tp[edges[pairs[0]][2]]]
        return Anomaly(tp, "each of these transactions had to be committed before it was: " + ", ".join(steps), lines)

    report.add(
        "circular-read",
        np.arange(len(cycles)),
        describe,
        order=lambda at: (_line(index, edges, cycles[at]),),
    )


def _edges(index: LogIndex, view: TransactionView) -> Edges:
    """Return who has read of whom; transactions that were certainly aborted depend on nobody, and nobody on them."""
    history = index.history
    edges: Edges = {}

    def add(reader: int, send: int, kind: str, row: int) -> None:
        writer = int(view.send_txn[send])
        if writer == UNKNOWN or ABORTED in (view.outcomes.state[writer], view.outcomes.state[reader]):
            return
        edges.setdefault((writer, reader), (kind, row, send))

    by = view.poll_txn[history.records.poll]
    for row in np.flatnonzero((by != UNKNOWN) & (view.record_txn != UNKNOWN)).tolist():
        add(int(by[row]), int(index.send_of[row]), "poll", row)
    holders = _holders(index)
    numbers = {name: number for number, name in enumerate(history.partitions)}
    for given, row in zip(history.transactions.inputs, input_rows(index).tolist(), strict=True):
        holder = holders.get((numbers.get(given.tp, UNKNOWN), given.off))
        if holder is not None and view.send_txn[row] != UNKNOWN:
            add(int(view.send_txn[row]), holder, "send", row)
    return edges


def _holders(index: LogIndex) -> dict[tuple[int, int], int]:
    """Return which transactional send lies at the place of each input that the history names."""
    history = index.history
    if not history.transactions.inputs:
        return {}
    numbers = {name: number for number, name in enumerate(history.partitions)}
    wanted = {(numbers.get(each.tp, UNKNOWN), each.off) for each in history.transactions.inputs}
    places = zip(history.sends.tp[index.placed].tolist(), index.place[index.placed].tolist(), strict=True)
    return {place: row for place, row in zip(places, index.placed.tolist(), strict=True) if place in wanted}


def _line(index: LogIndex, edges: Edges, cycle: list[int]) -> int:
    """Return the line that shows the first edge of a cycle."""
    kind, row, _ = edges[cycle[0], cycle[1] if len(cycle) > 1 else cycle[0]]
    history = index.history
    return int(history.sends.line[row] if kind == "send" else history.polls.line[history.records.poll[row]])


def _from_first_line(index: LogIndex, edges: Edges, cycle: list[int]) -> list[int]:
    """Return a cycle that begins with the edge that was shown first."""
    turns = [cycle[at:] + cycle[:at] for at in range(len(cycle))]
    return min(turns, key=lambda each: _line(index, edges, each))


def _proof(index: LogIndex, kind: str, row: int) -> dict[str, Any]:
    return record_line(index.history, row) if kind == "poll" else send_line(index.history, row)
