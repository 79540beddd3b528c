"""What a history says of transactions, in the rows of its sends, polls and records."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from raftka.check.log.columns import OK, UNKNOWN, UNSETTLED, Flags, LogHistory, Numbers
from raftka.check.transactions.outcomes import COMMITTED, UNSURE, Outcomes


class TransactionView:
    """Derived columns of a history that says something of transactions.

    Attributes:
        send_txn: For each send its transaction, or UNKNOWN.
        poll_txn: For each poll the transaction that it was made for, or UNKNOWN.
        poll_lso: For each poll the last stable offset that came with it, or UNKNOWN.
        is_committed_poll: For each poll whether it was at read_committed.
        outcomes: How each transaction ended, as its producer knows it.
        seen: For each transaction whether a poll at read_committed has returned a record of it.
        is_committed: For each transaction whether its records are promised: its producer was told that it is committed,
            or the producer does not know, and somebody has seen it at read_committed.
    """

    def __init__(self, history: LogHistory, send_of: Numbers) -> None:
        """Look at a history.

        Args:
            history: It, as it was read.
            send_of: For each polled record the row of its send, or UNKNOWN.
        """
        marks, polls = history.transactions, history.polls
        self._history = history
        self._send_of = send_of
        self.send_txn = _at(history.sends.line, marks.send_line, marks.send_txn)
        self.poll_txn = _at(polls.line, marks.poll_line, marks.poll_txn)
        self.poll_lso = _at(polls.line, marks.poll_line, marks.poll_lso)
        self.is_committed_poll: Flags = _at(polls.line, marks.poll_line, marks.poll_iso) == 1
        self.outcomes = Outcomes.of(marks)
        self.seen = np.zeros(len(marks.names), np.bool_)
        self.seen[self.record_txn[self.record_txn != UNKNOWN]] = True
        state = self.outcomes.state
        self.is_committed: Flags = (state == COMMITTED) | ((state == UNSURE) & self.seen)

    @cached_property
    def record_txn(self) -> Numbers:
        """For each record that a poll at read_committed has certainly returned, its transaction; else UNKNOWN."""
        polls, records = self._history.polls, self._history.records
        counts = self.is_committed_poll[records.poll] & (polls.type[records.poll] == OK) & (self._send_of != UNKNOWN)
        found = np.full(len(records), UNKNOWN)
        rows = np.flatnonzero(counts)
        found[rows] = self.send_txn[self._send_of[rows]]
        return found

    @cached_property
    def is_hidden(self) -> Flags:
        """For each send whether it is of a transaction that is not known to be committed: nobody has to see it."""
        flags = np.zeros(len(self.send_txn), np.bool_)
        rows = np.flatnonzero(self.send_txn != UNKNOWN)
        flags[rows] = ~self.is_committed[self.send_txn[rows]]
        return flags

    @cached_property
    def settled(self) -> LogHistory:
        """The history, in which acknowledged sends that nobody has to see are UNSETTLED: they promise nothing."""
        sends = self._history.sends
        kind = np.where((sends.type == OK) & self.is_hidden, UNSETTLED, sends.type)
        return replace(self._history, sends=replace(sends, type=kind))

    @cached_property
    def is_read_committed_at_last(self) -> Flags:
        """For each partition whether its final reads leave out what was not committed."""
        polls = self._history.polls
        finals = np.flatnonzero((polls.final == 1) & (polls.type == OK))
        flags = np.zeros(len(self._history.partitions), np.bool_)
        flags[polls.tp[finals[self.is_committed_poll[finals]]]] = True
        flags[polls.tp[finals[~self.is_committed_poll[finals]]]] = False
        return flags


def _at(lines: Numbers, marked: Numbers, values: Numbers) -> Numbers:
    """Return for each row, by its line, what is said of it, or UNKNOWN. Lines are ascending on both sides."""
    found = np.full(len(lines), UNKNOWN)
    if not len(lines) or not len(marked):
        return found
    at = np.minimum(np.searchsorted(lines, marked), len(lines) - 1)
    is_here = lines[at] == marked
    found[at[is_here]] = values[is_here]
    return found
