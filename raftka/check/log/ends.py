"""Where the log of each partition ends, by its final reads, and which of these say that there is more."""

import numpy as np

from raftka.check.log.columns import OK, UNKNOWN, LogHistory, Numbers
from raftka.check.operations import Seek


class LogEnds:
    """The ends of all partitions, as offsets of the next record to come.

    Attributes:
        read: How far the final reads came: behind their last record, to where a final reader moved, to a trim.
        told: The largest high watermark that came with them, or UNKNOWN; offsets below it may hold markers.
        short: The first partition whose last final poll that has a high watermark says that there is more, with why
            nothing can be said of it: what is missing then is what nobody has read. None: there is none.
    """

    def __init__(self, history: LogHistory) -> None:
        polls, records = history.polls, history.records
        self.read = np.zeros(len(history.partitions), np.int64)
        is_final = (polls.final == 1) & (polls.type == OK)
        rows = np.flatnonzero(is_final[records.poll])
        np.maximum.at(self.read, records.tp[rows], records.off[rows] + 1)
        for tp, offset in history.trims.items():
            self.read[tp] = max(self.read[tp], offset)
        self._note_seeks(history, np.flatnonzero(is_final))
        finals = np.flatnonzero(is_final & (polls.hw != UNKNOWN))
        self.told = np.full(len(history.partitions), UNKNOWN)
        np.maximum.at(self.told, polls.tp[finals], polls.hw[finals])
        self.short = self._short(history, finals)

    def _note_seeks(self, history: LogHistory, finals: Numbers) -> None:
        """A log whose records are all gone is read from its start, which is its end."""
        polls = history.polls
        numbers = {name: number for number, name in enumerate(history.partitions)}
        last = {}
        for poll in finals.tolist():
            last[int(polls.proc[poll]), int(polls.tp[poll])] = int(polls.line[poll])
        for line, move in history.moves:
            if not isinstance(move, Seek):
                continue
            tp = numbers.get(move.tp)
            if tp is not None and line < last.get((move.proc, tp), UNKNOWN):
                self.read[tp] = max(self.read[tp], move.off or 0)

    def _short(self, history: LogHistory, finals: Numbers) -> tuple[int, str] | None:
        polls = history.polls
        last = np.full(len(history.partitions), UNKNOWN)
        # Of several assignments to one partition numpy keeps the last: the poll that began last.
        order = finals[np.argsort(polls.inv[finals], kind="stable")]
        last[polls.tp[order]] = order
        ends = last[last != UNKNOWN]
        short = ends[self.read[polls.tp[ends]] < polls.hw[ends]]
        if not len(short):
            return None
        poll = int(short[0])
        tp = int(polls.tp[poll])
        return tp, (
            f"{history.places.name(polls.line[poll])}: the final read of {history.partitions[tp]} ends at"
            f" {self.read[tp]}, below its own high watermark, {polls.hw[poll]}: read to the end"
        )
