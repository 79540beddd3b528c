"""The last stable offset: it never goes back, and nothing at or beyond it is shown at read_committed."""

from functools import partial

import numpy as np

from raftka.check.log.columns import OK, UNKNOWN, UNRECORDED
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import poll_line, record_order
from raftka.check.verdict import Anomaly, Report


def check_stable_offsets(index: LogIndex, report: Report) -> None:
    """Report nonmonotonic-lso and read-beyond-lso."""
    if index.transactions is None:
        return
    _check_order(index, report)
    _check_beyond(index, report)


def _check_order(index: LogIndex, report: Report) -> None:
    """As for high watermarks: only a deposed leader may answer with less, and none answers a fetch of a later epoch."""
    assert index.transactions is not None
    history, polls, lso = index.history, index.history.polls, index.transactions.poll_lso
    one, two = index.sessions.pairs((polls.type == OK) & (lso != UNKNOWN) & (polls.epoch != UNKNOWN), across_moves=True)
    goes_on = (polls.epoch[two] == UNRECORDED) | (polls.epoch[two] >= polls.epoch[one])
    one, two = one[goes_on], two[goes_on]

    def describe(at: int) -> Anomaly:
        text = f"the last stable offset went back from {lso[one[at]]} to {lso[two[at]]} for one process"
        lines = [poll_line(history, int(one[at])), poll_line(history, int(two[at]))]
        return Anomaly(history.partitions[polls.tp[one[at]]], text, lines)

    back = lso[two] < lso[one]
    is_allowed = index.is_rewound(polls.tp[two], lso[two], polls.ret[two])
    report.add(
        "nonmonotonic-lso",
        np.flatnonzero(back & ~is_allowed),
        describe,
        order=lambda at: (polls.proc[two[at]], polls.tp[two[at]], polls.line[two[at]]),
        allowed=int((back & is_allowed).sum()),
    )


def _check_beyond(index: LogIndex, report: Report) -> None:
    assert index.transactions is not None
    history, polls, records = index.history, index.history.polls, index.history.records
    lso = index.transactions.poll_lso[records.poll]
    is_committed = index.transactions.is_committed_poll[records.poll]
    rows = np.flatnonzero((lso != UNKNOWN) & (records.off >= lso) & is_committed & index.is_ok_record)
    # A poll is one case, and its first such record tells it.
    rows = rows[np.diff(records.poll[rows], prepend=UNKNOWN) != 0]

    def describe(row: int) -> Anomaly:
        poll = int(records.poll[row])
        text = f"offset {records.off[row]} was returned at read_committed with a last stable offset of {lso[row]}"
        return Anomaly(history.partitions[polls.tp[poll]], text, [poll_line(history, poll, row)])

    report.add("read-beyond-lso", rows, describe, order=partial(record_order, history))
