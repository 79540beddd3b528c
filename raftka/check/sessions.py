"""Which polls follow each other: what one process reads of one partition, until it is moved."""

from collections import defaultdict

import numpy as np

from raftka.check.log.columns import UNKNOWN, Flags, LogHistory, Numbers
from raftka.check.operations import Seek, Subscribe
from raftka.check.sorting import stable_order

# Of a process that has read nothing yet, and that nothing has moved.
AT_START = -2


class Sessions:
    """Which polls follow each other: of one process and partition, with nothing that moved it between them."""

    def __init__(self, history: LogHistory) -> None:
        polls = history.polls
        self._history = history
        self._stream = polls.proc * len(history.partitions) + polls.tp
        # For each poll whether a group gave its process the partition.
        self.is_subscribed = np.zeros(len(polls), np.bool_)
        # For each poll how many moves of its stream came before it.
        self.moves = np.zeros(len(polls), np.int64)
        # For each poll the offset that the last of them, a seek, named, and the line of it; else UNKNOWN.
        self.sought = np.full(len(polls), UNKNOWN)
        self.seek = np.full(len(polls), UNKNOWN)
        if history.moves:
            self._note_moves()

    def pairs(self, chosen: Flags, *, across_moves: bool = False) -> tuple[Numbers, Numbers]:
        """Return (polls, the next poll of each) among the chosen ones."""
        rows = np.flatnonzero(chosen)
        rows = rows[stable_order(self._stream[rows])]
        one, two = rows[:-1], rows[1:]
        follows = self._stream[one] == self._stream[two]
        if not across_moves:
            follows &= self.moves[one] == self.moves[two]
        return one[follows], two[follows]

    def first_after_seek(self, chosen: Flags) -> Numbers:
        """Return the first of the chosen polls behind each seek that named an offset."""
        rows = np.flatnonzero(chosen)
        rows = rows[stable_order(self._stream[rows])]
        is_first = np.diff(self._stream[rows], prepend=UNKNOWN) != 0
        is_first |= np.diff(self.moves[rows], prepend=UNKNOWN) != 0
        firsts: Numbers = rows[is_first & (self.sought[rows] != UNKNOWN)]
        return firsts

    def positions(self, last: Numbers, chosen: Flags) -> Numbers:
        """Return for each chosen poll the latest of `last` in its stream, up to itself and since it was moved.

        Where there is none yet: UNKNOWN if a group or a seek has chosen the beginning, else AT_START.

        Args:
            last: For each poll a number that is not negative, or UNKNOWN where it says nothing new.
            chosen: The polls to look at.
        """
        rows = np.flatnonzero(chosen)
        rows = rows[stable_order(self._stream[rows])]
        said = np.where(last[rows] != UNKNOWN, np.arange(len(rows)), UNKNOWN)
        at = np.maximum.accumulate(said) if len(said) else said
        same = (at != UNKNOWN) & (self._stream[rows[at]] == self._stream[rows])
        same &= self.moves[rows[at]] == self.moves[rows]
        is_at_start = (self.moves[rows] == 0) & ~self.is_subscribed[rows]
        found = np.full(len(last), UNKNOWN)
        found[rows] = np.where(same, last[rows[at]], np.where(is_at_start, AT_START, UNKNOWN))
        return found

    def _note_moves(self) -> None:
        polls = self._history.polls
        lines: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        modes: defaultdict[int, list[tuple[int, bool]]] = defaultdict(list)
        held: dict[int, set[int]] = {}
        numbers = {name: number for number, name in enumerate(self._history.partitions)}
        for line, move in sorted(self._history.moves, key=lambda each: each[0]):
            sought = UNKNOWN
            if isinstance(move, Seek):
                if move.type == "ok" and move.off is not None:
                    sought = move.off
                moved = {numbers[move.tp]} if move.tp in numbers else set()
            else:
                now = {numbers[tp] for tp in move.tps if tp in numbers}
                # One that it had keeps its position, unless a group has given it to others in between.
                moved = held.get(move.proc, set(numbers.values())) - now
                held[move.proc] = now
                modes[move.proc].append((line, isinstance(move, Subscribe)))
            for tp in moved:
                lines[move.proc * len(numbers) + tp].append((line, sought))
        for stream, moves in lines.items():
            rows = np.flatnonzero(self._stream == stream)
            told = np.array([(UNKNOWN, UNKNOWN), *moves])
            self.moves[rows] = np.searchsorted(told[:, 0], polls.line[rows]) - 1
            self.seek[rows], self.sought[rows] = told[self.moves[rows]].T
        for process, changes in modes.items():
            rows = np.flatnonzero(polls.proc == process)
            at = np.searchsorted(np.array([line for line, _ in changes]), polls.line[rows]) - 1
            flags = np.array([mode for _, mode in changes])
            self.is_subscribed[rows] = (at >= 0) & flags[np.maximum(at, 0)]
