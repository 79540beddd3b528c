"""What one process saw, poll after poll: each record once, in order, nothing left out, and no step back."""

from collections import defaultdict

import numpy as np

from raftka.check.log_columns import OK, UNKNOWN, Flags, LogHistory, Numbers
from raftka.check.log_index import LogIndex
from raftka.check.log_lines import poll_line
from raftka.check.operations import Seek, Subscribe
from raftka.check.verdict import Anomaly, Report


def check_sessions(index: LogIndex, report: Report) -> None:
    """Report poll-skip, nonmonotonic-poll, both within one poll (int-), and nonmonotonic-hw.

    Across polls, what a group's rebalance may have moved is allowed: a process that subscribes goes on where somebody
    else has committed.
    """
    _check_within(index, report)
    sessions = _Sessions(index.history)
    _check_across(index, sessions, report)
    _check_high_watermarks(index, sessions, report)


def _check_within(index: LogIndex, report: Report) -> None:
    history, records = index.history, index.history.records
    rows = np.flatnonzero((np.diff(records.poll) == 0) & index.is_ok_record[:-1])
    steps = index.position[rows + 1] - index.position[rows]

    def describe(row: int) -> Anomaly:
        return _step(history, int(records.poll[row]), row, int(records.poll[row]), row + 1)

    skips = (steps > 1) & ~_is_trimmed_before(index, rows + 1)
    report.add("int-poll-skip", rows[skips], describe)
    report.add("int-nonmonotonic-poll", rows[steps < 1], describe)


def _check_across(index: LogIndex, sessions: "_Sessions", report: Report) -> None:
    history, polls = index.history, index.history.polls
    first, last = polls.first, polls.first + polls.size - 1
    one, two = sessions.pairs((polls.type == OK) & (polls.size > 0))
    steps = index.position[first[two]] - index.position[last[one]]

    def describe(at: int) -> Anomaly:
        return _step(history, int(one[at]), int(last[one[at]]), int(two[at]), int(first[two[at]]))

    is_group = sessions.is_subscribed[two]
    for name, flags in (
        ("poll-skip", (steps > 1) & ~_is_trimmed_before(index, first[two])),
        ("nonmonotonic-poll", steps < 1),
    ):
        report.add(name, np.flatnonzero(flags & ~is_group), describe, allowed=int((flags & is_group).sum()))


def _check_high_watermarks(index: LogIndex, sessions: "_Sessions", report: Report) -> None:
    history, polls = index.history, index.history.polls
    one, two = sessions.pairs((polls.type == OK) & (polls.hw != UNKNOWN), across_moves=True)

    def describe(at: int) -> Anomaly:
        text = f"the high watermark went back from {polls.hw[one[at]]} to {polls.hw[two[at]]} for one process"
        lines = [poll_line(history, int(one[at])), poll_line(history, int(two[at]))]
        return Anomaly(history.partitions[polls.tp[one[at]]], text, lines)

    back = polls.hw[two] < polls.hw[one]
    is_allowed = index.is_rewound(polls.tp[two], polls.hw[two], polls.ret[two])
    report.add("nonmonotonic-hw", np.flatnonzero(back & ~is_allowed), describe, allowed=int((back & is_allowed).sum()))


def _step(history: LogHistory, one: int, before: int, two: int, after: int) -> Anomaly:
    offsets = history.records.off
    process = history.polls.proc[one]
    text = f"process {process} polled offset {offsets[before]} and then {offsets[after]}"
    lines = [poll_line(history, one, before, after)]
    if one != two:
        lines = [poll_line(history, one, before), poll_line(history, two, after)]
    return Anomaly(history.partitions[history.polls.tp[one]], text, lines)


def _is_trimmed_before(index: LogIndex, records: Numbers) -> Flags:
    """Whether all that was left out before these records was deleted on purpose."""
    tp = index.history.records.tp[records]
    before = index.offsets[np.maximum(index.position[records] - 1, 0)] if len(index.offsets) else records
    return before < index.history.key(tp, index.trim[tp])


class _Sessions:
    """Which polls follow each other: of one process and partition, with nothing that moved it between them."""

    def __init__(self, history: LogHistory) -> None:
        polls = history.polls
        self._history = history
        self._stream = polls.proc * len(history.partitions) + polls.tp
        self.is_subscribed = np.zeros(len(polls), np.bool_)
        # How many moves of its stream came before each poll.
        self._moves = np.zeros(len(polls), np.int64)
        if history.moves:
            self._note_moves()

    def pairs(self, chosen: Flags, *, across_moves: bool = False) -> tuple[Numbers, Numbers]:
        """Return (polls, the next poll of each) among the chosen ones."""
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(self._stream[rows], kind="stable")]
        one, two = rows[:-1], rows[1:]
        follows = self._stream[one] == self._stream[two]
        if not across_moves:
            follows &= self._moves[one] == self._moves[two]
        return one[follows], two[follows]

    def _note_moves(self) -> None:
        polls = self._history.polls
        lines: defaultdict[int, list[int]] = defaultdict(list)
        modes: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
        held: dict[int, set[int]] = {}
        numbers = {name: number for number, name in enumerate(self._history.partitions)}
        for line, move in sorted(self._history.moves, key=lambda each: each[0]):
            if isinstance(move, Seek):
                moved = {numbers[move.tp]} if move.tp in numbers else set()
            else:
                now = {numbers[tp] for tp in move.tps if tp in numbers}
                # One that it had keeps its position, unless a group has given it to others in between.
                moved = held.get(move.proc, set(numbers.values())) - now
                held[move.proc] = now
                modes[move.proc].append((line, isinstance(move, Subscribe)))
            for tp in moved:
                lines[move.proc * len(numbers) + tp].append(line)
        for stream, moves in lines.items():
            rows = np.flatnonzero(self._stream == stream)
            self._moves[rows] = np.searchsorted(np.array(moves), polls.line[rows])
        for process, changes in modes.items():
            rows = np.flatnonzero(polls.proc == process)
            at = np.searchsorted(np.array([line for line, _ in changes]), polls.line[rows]) - 1
            flags = np.array([mode for _, mode in changes])
            self.is_subscribed[rows] = (at >= 0) & flags[np.maximum(at, 0)]
