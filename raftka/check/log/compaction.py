"""Compacted partitions: since when a record may be missing, because a later one of its key is there.

A pass of compaction keeps of each key the record with the largest offset. So an acknowledged record may be missing once
a later record of its key lies in the same partition. A tombstone may also be missing once it is old. What nobody knows
the outcome of may lie anywhere; a reader on its way may have missed a record because of it. The final reads may not,
unless it is a tombstone that is old by then: a value would be the newest of its key, and be there.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raftka.check.log.columns import FAIL, NEVER, NO_ACK, OK, UNKNOWN, Flags, LogHistory, Numbers
from raftka.check.log.lines import send_line
from raftka.check.transactions.outcomes import ABORTED

if TYPE_CHECKING:
    from raftka.check.log.index import LogIndex


@dataclass(frozen=True, slots=True)
class Supersessions:
    """Instants, one for each send, in nanoseconds; NEVER where the partition is not compacted, or nothing excuses it.

    Attributes:
        superseded: Since when a later record of its key may have been in the log.
        skippable: Since when a reader may miss it: the same, or since it is an old tombstone.
        gone: Since when the final reads may miss it.
        group: For each send of a compacted partition the number of its partition and key, else UNKNOWN.
        is_certain: For each send whether it is in the log for sure, for readers of committed records, too.
    """

    superseded: Numbers
    skippable: Numbers
    gone: Numbers
    group: Numbers
    is_certain: Flags

    @classmethod
    def of(cls, index: "LogIndex") -> "Supersessions":
        """Return what the records of each key say of each other."""
        history, sends = index.history, index.history.sends
        rows = np.flatnonzero(is_compacted(history)[sends.tp] & (sends.type != FAIL) & (sends.key != UNKNOWN))
        group = np.full(len(sends), UNKNOWN)
        group[rows] = np.unique(history.key(sends.tp[rows], sends.key[rows]), return_inverse=True)[1]
        is_certain = np.zeros(len(sends), np.bool_)
        is_certain[index.placed] = True
        is_aborted = np.zeros(len(sends), np.bool_)
        if index.transactions is not None:
            is_certain &= ~index.transactions.is_hidden
            known = np.flatnonzero(index.transactions.send_txn != UNKNOWN)
            states = index.transactions.outcomes.state[index.transactions.send_txn[known]]
            is_aborted[known] = states == ABORTED
        certain = rows[is_certain[rows]]
        possible = rows[~is_certain[rows] & ~is_aborted[rows]]
        old = _old(history)
        last = np.maximum(index.place, _highest(index))
        # What acks=0 calls its end is that of the sending, not of the writing.
        ended = np.where((sends.type == OK) & (sends.acks != NO_ACK), sends.ret, NEVER)

        def behind(sources: Numbers, since: Numbers) -> Numbers:
            """Return for each row the least of `since` among the sources of its key that may lie behind it."""
            placed, unplaced = sources[last[sources] != UNKNOWN], sources[last[sources] == UNKNOWN]
            found = least_behind(group[placed], last[placed], since[placed], group[rows], index.place[rows])
            return np.minimum(found, not_before(unplaced, since))

        def not_before(sources: Numbers, since: Numbers) -> Numbers:
            """Return the same where nothing but time tells the order: a source that had ended lies before the row."""
            return least_behind(group[sources], ended[sources], since[sources], group[rows], sends.inv[rows] - 1)

        superseded, skippable, gone = (np.full(len(sends), NEVER) for _ in range(3))
        superseded[rows] = behind(np.concatenate([certain, possible]), sends.inv)
        skippable[rows] = np.minimum(superseded[rows], old[rows])
        tombstones = possible[sends.tombstone[possible] == 1]
        is_placed = index.place[rows] != UNKNOWN
        replaced = np.where(is_placed, behind(certain, sends.inv), not_before(certain, sends.inv))
        gone[rows] = np.minimum(np.minimum(replaced, behind(tombstones, old)), old[rows])
        return cls(superseded, skippable, gone, group, is_certain)


def is_compacted(history: LogHistory) -> Flags:
    """For each partition whether its log may be compacted."""
    flags = np.zeros(len(history.partitions), np.bool_)
    flags[list(history.compacted)] = True
    return flags


def retention_of(history: LogHistory) -> Numbers:
    """For each partition for how many nanoseconds a tombstone stays at least; 0 where it is not compacted."""
    found = np.zeros(len(history.partitions), np.int64)
    for tp, retention in history.compacted.items():
        found[tp] = retention
    return found


def is_gone_by_compaction(index: "LogIndex", rows: Numbers) -> Flags:
    """Return which of these sends the final reads may miss, because compaction may have removed them."""
    if index.supersessions is None:
        return np.zeros(len(rows), np.bool_)
    history = index.history
    flags: Flags = index.supersessions.gone[rows] <= final_ends(history)[history.sends.tp[rows]]
    return flags & is_compacted(history)[history.sends.tp[rows]]


def final_ends(history: LogHistory) -> Numbers:
    """For each partition when its last final poll ended, in nanoseconds; -1: there is none."""
    polls = history.polls
    finals = np.flatnonzero((polls.final == 1) & (polls.type == OK))
    ends = np.full(len(history.partitions), UNKNOWN)
    np.maximum.at(ends, polls.tp[finals], polls.ret[finals])
    return ends


def is_missed_between(index: "LogIndex", begin: Numbers, end: Numbers, records: Numbers) -> Flags:
    """Return which of some skips have left out a record that had to be there; all are of compacted partitions.

    Args:
        index: Of the history.
        begin: Of each skip the first place in `index.offsets` that was left out.
        end: The place behind the last one.
        records: The polled record that came behind the skip.
    """
    flags = np.zeros(len(records), np.bool_)
    if not len(records):
        return flags
    until = index.history.polls.ret[index.history.records.poll[records]]
    is_committed = np.zeros(len(records), np.bool_)
    if index.transactions is not None:
        is_committed = index.transactions.is_committed_poll[index.history.records.poll[records]]
    for kind in (False, True):
        rows = np.flatnonzero((begin < end) & (is_committed == kind))
        if len(rows):
            rows = rows[np.argsort(begin[rows], kind="stable")]
            # One more element: an end may lie behind the last one.
            since = np.append(index.skippable_of(is_committed=kind), UNKNOWN)
            bounds = np.stack([begin[rows], end[rows]], axis=1).ravel()
            flags[rows] = np.maximum.reduceat(since, bounds)[::2] > until[rows]
    return flags


def why_missed(index: "LogIndex", begin: int, record: int) -> tuple[str, list[dict[str, Any]]]:
    """Return (which record a skip of a compacted partition has left out and why it counts, its send); else nothing.

    Args:
        index: Of the history.
        begin: The first place in `index.offsets` that was left out.
        record: The polled record that came behind the skip.
    """
    history = index.history
    if int(history.records.tp[record]) not in history.compacted:
        return "", []
    poll = int(history.records.poll[record])
    is_committed = index.transactions is not None and bool(index.transactions.is_committed_poll[poll])
    since = index.skippable_of(is_committed=is_committed)[begin : int(index.position[record])]
    missed = np.flatnonzero(since > history.polls.ret[poll])
    if not len(missed):
        return "", []
    at = begin + int(missed[0])
    claims = index.claims[index.claim_position == at]
    polled = index.send_of[(index.position == at) & (index.send_of != UNKNOWN)]
    send = int(np.concatenate([claims, polled])[0])
    text = f"; between them lies offset {index.place[send]}, {why_kept(index, send)}"
    return text, [send_line(history, send)]


def why_kept(index: "LogIndex", send: int) -> str:
    """Return why a record of a compacted partition must be there, as part of a sentence; nothing for other ones."""
    history, sends = index.history, index.history.sends
    tp = int(sends.tp[send])
    if tp not in history.compacted:
        return ""
    key = repr(history.values[sends.key[send]])
    if sends.tombstone[send]:
        kept = history.compacted[tp] / 1e9
        return f"which deletes key {key}: no later record of the key was there, and a tombstone stays for {kept:g} s"
    return f"whose key is {key}: no later record of the key was there"


def least_behind(group: Numbers, place: Numbers, value: Numbers, of_group: Numbers, of_place: Numbers) -> Numbers:
    """Return for each question the least value among the rows of its group at larger places; NEVER: there is none.

    Args:
        group: Of each row; not negative.
        place: Of each row.
        value: Of each row.
        of_group: Of each question.
        of_place: Of each question.
    """
    if not len(group):
        return np.full(len(of_group), NEVER)
    ranks = np.unique(np.concatenate([place, of_place]), return_inverse=True)[1]
    step = len(ranks) + 1
    keys = group * step + ranks[: len(group)]
    order = np.argsort(keys, kind="stable")
    keys, group = keys[order], group[order]
    values, rank = np.unique(value[order], return_inverse=True)
    # The group counts first: from the end on, each smaller group begins anew.
    packed = group * (len(values) + 1) + rank
    least = np.minimum.accumulate(packed[::-1])[::-1]
    at = np.searchsorted(keys, of_group * step + ranks[len(group) :], side="right")
    is_inside = at < len(keys)
    at = np.minimum(at, len(keys) - 1)
    is_inside &= group[at] == of_group
    found = values[np.where(is_inside, least[at] - group[at] * (len(values) + 1), 0)]
    return np.where(is_inside, found, NEVER)


def _old(history: LogHistory) -> Numbers:
    """For each send since when it is a tombstone that may be missing; NEVER: it is none."""
    sends = history.sends
    retention = retention_of(history)[sends.tp]
    # Times are of any clock; a sum beyond the largest number is as good as never.
    is_near = sends.inv < NEVER - retention
    return np.where((sends.tombstone == 1) & is_near, sends.inv + np.where(is_near, retention, 0), NEVER)


def _highest(index: "LogIndex") -> Numbers:
    """For each send the largest offset at which its value was polled, or UNKNOWN."""
    found = np.full(len(index.history.sends), UNKNOWN)
    known = np.flatnonzero(index.send_of != UNKNOWN)
    np.maximum.at(found, index.send_of[known], index.history.records.off[known])
    return found
