"""What was deleted on purpose stays deleted: no poll that began after the answer returns it."""

from functools import partial

import numpy as np

from raftka.check.levels import Level
from raftka.check.log.columns import OK, UNKNOWN
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import record_line, record_order, trim_line
from raftka.check.running import prefix_max, take
from raftka.check.verdict import Anomaly, Report


def check_deletions(index: LogIndex, report: Report) -> None:
    """Report deleted-read. Where acks=all does not wait for fsyncs, power takes deletions too."""
    history, polls, records = index.history, index.history.polls, index.history.records
    if not history.deletions:
        return
    inv, ret, off = (np.array([getattr(each, name) for _, each in history.deletions]) for name in ("inv", "ret", "off"))
    is_lasting = ~(index.is_power_near(inv, ret) & (index.acks_all <= Level.WRITE_CACHING))
    bound, which = np.full(len(polls), UNKNOWN), np.full(len(polls), UNKNOWN)
    partition = np.array([history.partitions.index(each.tp) for _, each in history.deletions])
    for tp in np.unique(partition).tolist():
        mine = np.flatnonzero((partition == tp) & is_lasting)
        mine = mine[np.argsort(ret[mine], kind="stable")]
        largest, at = prefix_max(off[mine])
        asked = np.flatnonzero((polls.tp == tp) & (polls.type == OK))
        before = np.searchsorted(ret[mine], polls.inv[asked]) - 1
        bound[asked] = take(largest, before, UNKNOWN)
        which[asked] = take(mine[at], before, UNKNOWN)
    rows = np.flatnonzero(records.off < bound[records.poll])
    # A poll is one case, and its first such record tells it.
    rows = rows[np.diff(records.poll[rows], prepend=UNKNOWN) != 0]

    def describe(row: int) -> Anomaly:
        line, trim = history.deletions[which[records.poll[row]]]
        text = f"offset {records.off[row]} was polled after everything below {trim.off} had been deleted"
        return Anomaly(trim.tp, text, [trim_line(history, line), record_line(history, row)])

    report.add("deleted-read", rows, describe, order=partial(record_order, history))
