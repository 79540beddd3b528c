"""What the checks of a log share: which record is whose, where each lies, and in which order."""

from functools import cached_property

import numpy as np

from raftka.check.levels import Level, levels_of
from raftka.check.log.columns import FAIL, NEVER, OK, UNKNOWN, Flags, LogHistory, Numbers
from raftka.check.log.compaction import Supersessions
from raftka.check.log.ends import LogEnds
from raftka.check.sessions import Sessions
from raftka.check.slots import Slots
from raftka.check.transactions.view import TransactionView

# raft.flush.interval.ms is 100 by default; the rest is for the clocks and for the answer's way.
FLUSH_SECONDS = 1.0


class LogIndex:
    """Derived columns; each is made when a check first asks for it. The history is one that can be judged."""

    def __init__(self, history: LogHistory, acks_all: Level, flush_seconds: float = FLUSH_SECONDS) -> None:
        self.history = history
        self.acks_all = acks_all
        self._flush_ns = int(flush_seconds * 1e9)
        self.level = levels_of(history.sends, acks_all)
        self.trim = np.zeros(len(history.partitions), np.int64)
        for tp, offset in history.trims.items():
            self.trim[tp] = offset
        self.ends = LogEnds(history)
        # None: the history says nothing of them.
        self.transactions: TransactionView | None = None
        if not history.transactions.is_empty:
            self.transactions = TransactionView(history, self.send_of)
            self.history = self.transactions.settled

    @cached_property
    def sessions(self) -> Sessions:
        """Which polls follow each other."""
        return Sessions(self.history)

    @cached_property
    def send_of(self) -> Numbers:
        """For each polled record the row of its send, or UNKNOWN."""
        sends, records = self.history.sends, self.history.records
        if not len(sends):
            return np.full(len(records), UNKNOWN)
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
        flags: Flags = np.ones(len(self.send_of), np.bool_)
        if not self.gone.any():
            return flags
        known = np.flatnonzero(self.send_of != UNKNOWN)
        flags[known] = ~self.gone[self.send_of[known]]
        return flags

    def is_rewound(self, tp: Numbers, end: Numbers, until: Numbers, *, sent_by: Numbers | None = None) -> Flags:
        """Return whether a log may have been cut back to `end` before an instant, as levels allow.

        The election that cuts it may come long after the power loss: when those are away who still have the rest. What
        was lost without an answer and never polled may have been anywhere, if it was sent by `sent_by` (or `until`).
        """
        sends = self.history.sends
        ends = np.full(len(self.history.partitions), UNKNOWN)
        np.maximum.at(ends, sends.tp[self.gone], self.place[self.gone])
        nowhere = self.gone & (self.place == UNKNOWN) & (sends.type != FAIL)
        since = np.full(len(self.history.partitions), NEVER)
        np.minimum.at(since, sends.tp[nowhere], sends.inv[nowhere])
        losses = np.array([*self.history.power_losses, NEVER], dtype=np.int64)
        is_explained = (ends[tp] >= end) | (since[tp] < (until if sent_by is None else sent_by))
        flags: Flags = is_explained & (losses[0] <= until)
        return flags

    def is_power_near(self, inv: Numbers, ret: Numbers) -> Flags:
        """Return whether a power loss came after a beginning, and before an fsync was due that an answer is due to."""
        losses = np.array([*self.history.power_losses, NEVER], dtype=np.int64)
        following = losses[np.searchsorted(losses, inv)]
        flags: Flags = (following != NEVER) & (following - self._flush_ns <= ret)
        return flags

    def _sends_of(self, records: Flags) -> Flags:
        flags = np.zeros(len(self.history.sends), np.bool_)
        found = self.send_of[records]
        flags[found[found != UNKNOWN]] = True
        return flags

    @cached_property
    def is_at_place(self) -> Flags:
        """For each send whether a poll has returned its value at the acknowledged offset."""
        return self._sends_at_place(np.ones(len(self.history.records), np.bool_))

    @cached_property
    def moved(self) -> Flags:
        """For each send whether acks=1 has acknowledged it, and it was polled elsewhere only: another attempt's record.

        What was acknowledged is lost then, and when the other one was written is not known.
        """
        sends = self.history.sends
        is_acked: Flags = (sends.type == OK) & (self.level == Level.LEADER_ACK)
        if is_acked.any():
            is_acked &= self.seen & ~self.is_at_place
        return is_acked

    def _sends_at_place(self, records: Flags) -> Flags:
        rows = np.flatnonzero(records & (self.send_of != UNKNOWN))
        its = self.send_of[rows]
        flags = np.zeros(len(self.history.sends), np.bool_)
        flags[its[self.history.records.off[rows] == self.history.sends.off[its]]] = True
        return flags

    @cached_property
    def survivors(self) -> Flags:
        """For each send whether the final reads have it where it was acknowledged, in a known epoch."""
        sends = self.history.sends
        flags: Flags = self.is_finally_at_place & (sends.type == OK) & (sends.epoch >= 0)
        return flags

    @cached_property
    def is_finally_at_place(self) -> Flags:
        """For each send whether a final poll has returned its value at the acknowledged offset."""
        return self._sends_at_place(self.is_ok_record & (self.history.polls.final[self.history.records.poll] == 1))

    def is_survived(self, sends: Numbers, survivors: Flags | None = None) -> Flags:
        """Return which of these sends lie before a survivor of their epoch, as their acknowledgements say.

        Those were not lost: of what the leader of an epoch has in its log a suffix is lost, by its end as by power, and
        never a hole. `survivors` are those of the final reads unless others are given.
        """
        columns = self.history.sends
        if not len(sends):
            return np.zeros(0, np.bool_)
        kept = np.flatnonzero(self.survivors if survivors is None else survivors)
        _, epochs = np.unique(np.concatenate([columns.epoch[kept], columns.epoch[sends]]), return_inverse=True)
        keys = np.concatenate([columns.tp[kept], columns.tp[sends]]) * (len(epochs) + 1) + epochs
        _, which = np.unique(keys, return_inverse=True)
        ends = np.full(int(which.max()) + 1, UNKNOWN)
        np.maximum.at(ends, which[: len(kept)], columns.off[kept])
        is_known = (columns.epoch[sends] >= 0) & (columns.off[sends] != UNKNOWN)
        flags: Flags = is_known & (columns.off[sends] < ends[which[len(kept) :]])
        return flags

    @cached_property
    def place(self) -> Numbers:
        """For each send the lowest offset at which its value was polled; where it was not, the acknowledged one.

        The lowest: a record that a retry has written twice was there as soon as the first of it was.
        """
        sends = self.history.sends
        return np.where(self.lowest != NEVER, self.lowest, np.where(sends.type == OK, sends.off, UNKNOWN))

    @cached_property
    def lowest(self) -> Numbers:
        """For each send the lowest offset at which its value was polled, or NEVER."""
        lowest = np.full(len(self.history.sends), NEVER)
        known = np.flatnonzero(self.send_of != UNKNOWN)
        np.minimum.at(lowest, self.send_of[known], self.history.records.off[known])
        return lowest

    @cached_property
    def placed(self) -> Numbers:
        """Rows of sends whose place in the log is certain, by partition and offset.

        That is what was polled, and what acks=all has promised. What acks=1 has acknowledged and nobody polled may be
        lost, and then another record has its offset.
        """
        sends = self.history.sends
        is_certain = (self.seen | self.promised) & (sends.type != FAIL) & ~self.gone
        rows = np.flatnonzero((self.place != UNKNOWN) & is_certain)
        return rows[np.argsort(self.history.key(sends.tp[rows], self.place[rows]), kind="stable")]

    @cached_property
    def known_since(self) -> Numbers:
        """For each of `offsets` when it was first known, by the end of a poll or of a send, that something is there."""
        since = np.full(len(self.offsets), NEVER)
        np.minimum.at(since, self.position, self.history.polls.ret[self.history.records.poll])
        np.minimum.at(since, self.claim_position, self.history.sends.ret[self.claims])
        return since

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
        if self._slots is not None:
            return self.history.key(*self._slots.places(np.flatnonzero(self._is_slot_taken)))
        # Sorted and not hashed, as numpy.unique does it: that is ten times slower where most are different.
        keys: Numbers = np.sort(np.concatenate([self.record_key, self._claim_key]))
        is_new: Flags = np.diff(keys, prepend=-1) != 0
        return keys[is_new]

    def due_before(self, records: Numbers) -> Numbers:
        """Return for each of these records which of `offsets` a reader of it must have got last before it; -1: none.

        With transactions, an offset is not due if power took all that lay there: a marker may have it since. At
        read_committed, one is not due either if only transactions lie there that are not known to be committed.
        """
        before: Numbers = self.position[records] - 1
        if self.transactions is None:
            return before
        found = np.flatnonzero(before >= 0)
        is_committed = self.transactions.is_committed_poll[self.history.records.poll[records[found]]]
        at = before[found]
        before[found] = np.where(is_committed, self._last_committed[at], self._last_kept[at])
        return before

    @cached_property
    def supersessions(self) -> Supersessions | None:
        """Since when each record of compacted partitions may be missing; None: there are no such partitions."""
        return Supersessions.of(self) if self.history.compacted else None

    def skippable_of(self, *, is_committed: bool) -> Numbers:
        """Return for each of `offsets` since when a reader may miss it; UNKNOWN where it may at any time.

        Args:
            is_committed: Whether the reader gets records of committed transactions only.
        """
        assert self.supersessions is not None, "only compaction lets a record be missed from some instant on"
        rows = np.flatnonzero(self.stays & (self.send_of != UNKNOWN))
        if is_committed and self.transactions is not None:
            rows = rows[~self.transactions.is_hidden[self.send_of[rows]]]
        since = np.full(len(self.offsets), NEVER)
        np.minimum.at(since, self.position[rows], self.supersessions.skippable[self.send_of[rows]])
        np.minimum.at(since, self.claim_position, self.supersessions.skippable[self.claims])
        is_due = np.zeros(len(self.offsets), np.bool_)
        is_due[self.position[rows]] = True
        is_due[self.claim_position] = True
        return np.where(is_due, since, UNKNOWN)

    @cached_property
    def _last_kept(self) -> Numbers:
        """For each of `offsets` the last one up to it at which something lies that power has not taken; -1: none."""
        return self._last_of(self.stays)

    @cached_property
    def _last_committed(self) -> Numbers:
        """For each of `offsets` the last one up to it that read_committed must return; -1: there is none."""
        assert self.transactions is not None, "only transactions hide records"
        is_shown = self.stays.copy()
        known = np.flatnonzero(self.send_of != UNKNOWN)
        is_shown[known] &= ~self.transactions.is_hidden[self.send_of[known]]
        return self._last_of(is_shown)

    def _last_of(self, records: Flags) -> Numbers:
        """Return for each of `offsets` the last one up to it that has one of these records, or a claim; -1: none."""
        is_due = np.zeros(len(self.offsets), np.bool_)
        is_due[self.position[records]] = True
        is_due[self.claim_position] = True
        return np.maximum.accumulate(np.where(is_due, np.arange(len(is_due)), UNKNOWN))

    @cached_property
    def record_key(self) -> Numbers:
        """For each polled record its (partition, offset)."""
        return self.history.key(self.history.records.tp, self.history.records.off)

    @cached_property
    def _claim_key(self) -> Numbers:
        sends = self.history.sends
        return self.history.key(sends.tp[self.claims], sends.off[self.claims])

    @cached_property
    def position(self) -> Numbers:
        """For each polled record which of `offsets` it lies at."""
        if self._slots is not None:
            return self._position_of_slot[self._slots_of[0]]
        return np.searchsorted(self.offsets, self.record_key)

    @cached_property
    def claim_position(self) -> Numbers:
        """For each of `claims` which of `offsets` it lies at."""
        if self._slots is not None:
            return self._position_of_slot[self._slots_of[1]]
        return np.searchsorted(self.offsets, self._claim_key)

    @cached_property
    def _slots(self) -> Slots | None:
        sends, records = self.history.sends, self.history.records
        columns = [records.tp, sends.tp[self.claims]], [records.off, sends.off[self.claims]]
        return Slots.over(len(self.history.partitions), *columns)

    @cached_property
    def _slots_of(self) -> tuple[Numbers, Numbers]:
        """The slots of the records and of the claims."""
        assert self._slots is not None, "there is no table, for the holes are too large"
        sends, records = self.history.sends, self.history.records
        return (
            self._slots.of(records.tp, records.off),
            self._slots.of(sends.tp[self.claims], sends.off[self.claims]),
        )

    @cached_property
    def _is_slot_taken(self) -> Flags:
        assert self._slots is not None, "there is no table, for the holes are too large"
        return self._slots.is_taken(self._slots_of)

    @cached_property
    def _position_of_slot(self) -> Numbers:
        return np.cumsum(self._is_slot_taken) - 1

    @cached_property
    def first_ended(self) -> Numbers:
        """For each of `offsets` the record whose poll ended first, of those that happened, or UNKNOWN.

        Of several that ended together it is the last one. Records of sends that are gone do not count.
        """
        rows = np.flatnonzero(self.is_ok_record & self.stays)
        at, ended = self.position[rows], self.history.polls.ret[self.history.records.poll[rows]]
        least = np.full(len(self.offsets), NEVER)
        np.minimum.at(least, at, ended)
        is_first = np.flatnonzero(ended == least[at])
        found = np.full(len(self.offsets), UNKNOWN)
        # Of several assignments to one place numpy keeps the last.
        found[at[is_first]] = rows[is_first]
        return found

    def is_excused(self, sends: Numbers) -> Flags:
        """Return which of these sends a power loss may have taken: it came before their fsync was due.

        It takes the end of a log, so not what lies before a record of the same epoch that is still there.
        """
        is_near = self.is_power_near(self.history.sends.inv[sends], self.history.sends.ret[sends])
        flags: Flags = (self.level[sends] <= Level.WRITE_CACHING) & is_near
        near = np.flatnonzero(flags)
        flags[near] = ~self.is_survived(sends[near])
        return flags
