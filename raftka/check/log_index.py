"""What the checks of a log share: which record is whose, where each lies, and in which order."""

from functools import cached_property

import numpy as np

from raftka.check.errors import HistoryError
from raftka.check.levels import Level, levels_of
from raftka.check.log_columns import NEVER, NO_ACK, OK, UNKNOWN, Flags, LogHistory, Numbers

# raft.flush.interval.ms is 100 by default; the rest is for the clocks and for the answer's way.
FLUSH_SECONDS = 1.0


class LogIndex:
    """Derived columns; each is made when a check first asks for it.

    Raises:
        HistoryError: Nothing was sent, or a partition has no final read: without one, what is missing proves nothing.
    """

    def __init__(self, history: LogHistory, acks_all: Level, flush_seconds: float = FLUSH_SECONDS) -> None:
        self.history = history
        self._flush_ns = int(flush_seconds * 1e9)
        self.level = levels_of(history.sends, acks_all)
        self.trim = np.zeros(len(history.partitions), np.int64)
        for tp, offset in history.trims.items():
            self.trim[tp] = offset
        if not len(history.sends):
            raise HistoryError("nothing was sent: there is nothing to judge")
        self._check_final_reads()

    def _check_final_reads(self) -> None:
        """Without a final read, or one that began before a send had ended, a missing record proves nothing."""
        history, sends, polls = self.history, self.history.sends, self.history.polls
        # When the last final poll of each partition began.
        latest = np.full(len(history.partitions), NEVER)
        finals = np.flatnonzero((polls.final == 1) & (polls.type == OK))
        latest[polls.tp[finals]] = -NEVER
        np.maximum.at(latest, polls.tp[finals], polls.inv[finals])
        without = np.setdiff1d(sends.tp, polls.tp[finals])
        if len(without):
            shown = ", ".join(history.partitions[tp] for tp in without[:3]) + (" and more" if len(without) > 3 else "")
            raise HistoryError(
                f"no final read of {shown}: what is missing from polls may have come later; read everything once more"
                ' after the faults, as polls with "final": true'
            )

        late = np.flatnonzero((sends.type == OK) & (sends.acks != NO_ACK) & (sends.ret > latest[sends.tp]))
        if len(late):
            row = late[0]
            raise HistoryError(
                f"line {sends.line[row]}: the final read of {history.partitions[sends.tp[row]]} began before this"
                " send had ended; read everything once more at the very end"
            )

    @cached_property
    def send_of(self) -> Numbers:
        """For each polled record the row of its send, or UNKNOWN."""
        sends, records = self.history.sends, self.history.records
        if int(np.bincount(sends.val).max()) == 1:
            rows = np.full(len(self.history.values), UNKNOWN)
            rows[sends.val] = np.arange(len(sends))
            found = rows[records.val]
            return np.where((found != UNKNOWN) & (sends.tp[found] == records.tp), found, UNKNOWN)
        keys = self.history.key(sends.tp, sends.val)
        order = np.argsort(keys)
        wanted = self.history.key(records.tp, records.val)
        at = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
        found = order[at]
        return np.where(keys[found] == wanted, found, UNKNOWN)

    @cached_property
    def is_ok_record(self) -> Flags:
        """For each polled record whether its poll is known to have happened."""
        flags: Flags = self.history.polls.type[self.history.records.poll] == OK
        return flags

    @cached_property
    def promised(self) -> Flags:
        """For each send whether it was acknowledged by more than its leader."""
        flags: Flags = (self.history.sends.type == OK) & (self.level >= Level.WRITE_CACHING)
        return flags

    @cached_property
    def seen(self) -> Flags:
        """For each send whether any poll has returned its value."""
        return self._sends_of(np.ones(len(self.history.records), np.bool_))

    @cached_property
    def polled(self) -> Flags:
        """For each send whether a poll that happened has returned its value."""
        return self._sends_of(self.is_ok_record)

    @cached_property
    def read_at_last(self) -> Flags:
        """For each send whether a final poll has returned its value."""
        return self._sends_of(self.is_ok_record & (self.history.polls.final[self.history.records.poll] == 1))

    @cached_property
    def gone(self) -> Flags:
        """For each send whether power took it, as its level allows: another record may have its offset since."""
        flags: Flags = ~self.read_at_last
        if not self.history.power_losses:
            return np.zeros(len(flags), np.bool_)
        rows = np.flatnonzero(flags)
        flags[rows] = self.is_excused(rows)
        return flags

    @cached_property
    def stays(self) -> Flags:
        """For each polled record whether it is not of a send that is gone."""
        flags: Flags = (self.send_of == UNKNOWN) | ~self.gone[self.send_of]
        return flags

    def is_rewound(self, tp: Numbers, end: Numbers, until: Numbers) -> Flags:
        """Return whether a log may have been cut back to `end` before an instant, as levels allow.

        The election that cuts it may come long after the power loss: when those are away who still have the rest.
        """
        ends = np.full(len(self.history.partitions), UNKNOWN)
        np.maximum.at(ends, self.history.sends.tp[self.gone], self.place[self.gone])
        losses = np.array([*self.history.power_losses, NEVER], dtype=np.int64)
        flags: Flags = (ends[tp] >= end) & (losses[0] <= until)
        return flags

    def _sends_of(self, records: Flags) -> Flags:
        flags = np.zeros(len(self.history.sends), np.bool_)
        found = self.send_of[records]
        flags[found[found != UNKNOWN]] = True
        return flags

    @cached_property
    def place(self) -> Numbers:
        """For each send the offset at which its value was polled first; where it was not, the acknowledged one."""
        sends = self.history.sends
        places = np.where(sends.type == OK, sends.off, UNKNOWN)
        known = np.flatnonzero(self.send_of != UNKNOWN)[::-1]
        places[self.send_of[known]] = self.history.records.off[known]
        return places

    @cached_property
    def claims(self) -> Numbers:
        """Rows of sends whose acknowledged offset is a promise that the value is there for ever."""
        rows = np.flatnonzero(self.promised & (self.history.sends.off != UNKNOWN))
        return rows[~self.is_excused(rows)]

    @cached_property
    def offsets(self) -> Numbers:
        """Every (partition, offset) that holds a value, as ascending keys: what is next to what in the log.

        Offsets need not be dense: markers and compaction leave holes.
        """
        sends = self.history.sends
        claimed = self.history.key(sends.tp[self.claims], sends.off[self.claims])
        return np.unique(np.concatenate([self.record_key, claimed]))

    @cached_property
    def record_key(self) -> Numbers:
        """For each polled record its (partition, offset)."""
        return self.history.key(self.history.records.tp, self.history.records.off)

    @cached_property
    def position(self) -> Numbers:
        """For each polled record which of `offsets` it lies at."""
        return np.searchsorted(self.offsets, self.record_key)

    def is_excused(self, sends: Numbers) -> Flags:
        """Return which of these sends a power loss may have taken: it came before their fsync was due."""
        inv, ret = self.history.sends.inv[sends], self.history.sends.ret[sends]
        losses = np.array([*self.history.power_losses, NEVER], dtype=np.int64)
        following = losses[np.searchsorted(losses, inv)]
        is_near = (following != NEVER) & (following - self._flush_ns <= ret)
        flags: Flags = (self.level[sends] <= Level.WRITE_CACHING) & is_near
        return flags
