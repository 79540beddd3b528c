"""Figures of a log history that are neither good nor bad: how late consumers were, how often they read twice."""

from collections.abc import Sequence

import numpy as np

from raftka.check.log.columns import OK, UNKNOWN, Flags
from raftka.check.log.compaction import is_compacted
from raftka.check.log.index import LogIndex
from raftka.check.sessions import AT_START
from raftka.check.transactions.outcomes import UNSURE
from raftka.check.transactions.reads import exposed
from raftka.check.verdict import Report

_WORST = "worst-realtime-lag-ms"


def measure(index: LogIndex, report: Report) -> None:
    """Note worst-realtime-lag-ms, polled-twice, the same under subscribe, and how much of what."""
    sends, polls, records = index.history.sends, index.history.polls, index.history.records
    known = index.send_of != UNKNOWN
    report.measures |= {
        "sends": len(sends),
        "acked": int((sends.type == OK).sum()),
        "polls": len(polls),
        "polled": len(records),
        "polled-twice": polled_twice(index, known),
        "polled-twice-subscribed": polled_twice(index, known & index.sessions.is_subscribed[records.poll]),
        _WORST: _worst_lag_ns(index) / 1e6,
    }
    view = index.transactions
    if view is not None:
        report.measures |= {
            "transactions": len(view.seen),
            "committed": int(view.is_committed.sum()),
            "unsure": int(((view.outcomes.state == UNSURE) & ~view.is_committed).sum()),
            "late-ends": exposed(index),
        }


def together(measures: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the figures of a history, of those of pieces that have no partition in common."""
    whole: dict[str, float] = {}
    for each in measures:
        for name, figure in each.items():
            if name not in whole:
                whole[name] = figure
            elif name == _WORST:
                whole[name] = max(whole[name], figure)
            else:
                whole[name] += figure
    return whole


def polled_twice(index: LogIndex, chosen: Flags) -> int:
    """Count the chosen records that the same process had polled before."""
    rows = np.flatnonzero(chosen)
    keys = index.history.polls.proc[index.history.records.poll[rows]] * len(index.history.sends) + index.send_of[rows]
    return int((np.diff(np.sort(keys)) == 0).sum())


def _worst_lag_ns(index: LogIndex) -> int:
    """Return how long before a poll began the record behind the last one it got was known to be there, at worst.

    A poll that got nothing counts too: whoever is stuck lags most. Final polls do not: they begin from the start.
    """
    history, polls = index.history, index.history.polls
    if not len(index.offsets):
        return 0
    last = np.full(len(polls), UNKNOWN)
    has = polls.size > 0
    last[has] = index.position[(polls.first + polls.size - 1)[has]]
    at = index.sessions.positions(last, polls.type == OK)
    # Where logs are compacted, the record behind may be gone.
    rows = np.flatnonzero((at != UNKNOWN) & (polls.final == 0) & ~is_compacted(history)[polls.tp])
    starts = np.searchsorted(index.offsets, history.key(polls.tp[rows], np.zeros(len(rows), np.int64)))
    behind = np.where(at[rows] == AT_START, starts, at[rows] + 1)
    # The record behind may be of another partition.
    ends = np.searchsorted(index.offsets, history.key(polls.tp[rows] + 1, np.zeros(len(rows), np.int64)))
    inside = behind < ends
    lag = polls.inv[rows[inside]] - index.known_since[behind[inside]]
    return max(0, int(lag.max(initial=0)))
