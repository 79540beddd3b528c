"""Figures of a log history that are neither good nor bad: how late consumers were, how often they read twice."""

import numpy as np

from raftka.check.log_columns import NEVER, OK, UNKNOWN
from raftka.check.log_index import LogIndex
from raftka.check.verdict import Report


def measure(index: LogIndex, report: Report) -> None:
    """Note worst-realtime-lag-ms, polled-twice, and how much of what."""
    sends, polls, records = index.history.sends, index.history.polls, index.history.records
    report.measures |= {
        "sends": len(sends),
        "acked": int((sends.type == OK).sum()),
        "polls": len(polls),
        "polled": len(records),
        "polled-twice": _polled_twice(index),
        "worst-realtime-lag-ms": _worst_lag_ns(index) / 1e6,
    }


def _polled_twice(index: LogIndex) -> int:
    """Count the records that the same process had polled before."""
    polls, records = index.history.polls, index.history.records
    rows = np.flatnonzero(index.send_of != UNKNOWN)
    proc = polls.proc[records.poll[rows]]
    sent = index.send_of[rows]
    order = np.lexsort((sent, proc))
    return int(((np.diff(proc[order]) == 0) & (np.diff(sent[order]) == 0)).sum())


def _worst_lag_ns(index: LogIndex) -> int:
    """Return how long before a poll began the record behind its last one was known to be there, at worst."""
    history, polls = index.history, index.history.polls
    if not len(history.records):
        return 0
    known = np.full(len(index.offsets), NEVER)
    np.minimum.at(known, index.position, polls.ret[history.records.poll])
    keys = history.key(history.sends.tp[index.claims], history.sends.off[index.claims])
    np.minimum.at(known, np.searchsorted(index.offsets, keys), history.sends.ret[index.claims])
    rows = np.flatnonzero((polls.type == OK) & (polls.size > 0))
    behind = index.position[(polls.first + polls.size - 1)[rows]] + 1
    # The record behind may be of another partition.
    same = behind < len(known)
    same[same] = index.offsets[behind[same]] < history.key(
        polls.tp[rows[same]] + 1, np.zeros(int(same.sum()), np.int64)
    )
    lag = polls.inv[rows[same]] - known[behind[same]]
    return max(0, int(lag.max(initial=0)))
