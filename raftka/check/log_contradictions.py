"""What no log history may say, for then nothing follows from it: a value sent twice, a process in two places."""

import numpy as np

from raftka.check.errors import HistoryError
from raftka.check.log_columns import NEVER, UNKNOWN, LogHistory
from raftka.check.sorting import stable_order


def check_contradictions(history: LogHistory) -> None:
    """Refuse a history that contradicts itself.

    Raises:
        HistoryError: It does; both lines are named.
    """
    _check_unique(history)
    _check_one_at_a_time(history)


def _check_unique(history: LogHistory) -> None:
    sends = history.sends
    if not len(sends) or int(np.bincount(sends.val).max()) == 1:
        return
    keys = history.key(sends.tp, sends.val)
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(np.diff(keys[order]) == 0)
    if len(again):
        first, second = order[again[0]], order[again[0] + 1]
        raise HistoryError(
            f"{_both(history, sends.line[first], sends.line[second])}: value {history.values[sends.val[first]]!r} is"
            f" sent twice to {history.partitions[sends.tp[first]]}; only values that are unique in their partition can"
            " be told apart"
        )


def _check_one_at_a_time(history: LogHistory) -> None:
    """Each process's lines are in the order of time, and none begins before the one before it has ended.

    Lines of one poll that returned records of several partitions begin and end together.
    """
    sorts = (history.sends, history.polls, history.latests)
    size = max(int(each.line.max(initial=0)) for each in sorts) + 1
    proc, inv, ret = np.full(size, UNKNOWN), np.zeros(size, np.int64), np.zeros(size, np.int64)
    is_poll = np.zeros(size, np.bool_)
    for each in sorts:
        proc[each.line], inv[each.line], ret[each.line] = each.proc, each.inv, each.ret
    is_poll[history.polls.line] = True
    order = stable_order(proc)
    order = order[proc[order] != UNKNOWN]
    one, two = order[:-1], order[1:]
    together = is_poll[one] & is_poll[two] & (inv[one] == inv[two]) & (ret[one] == ret[two])
    ends = np.where(ret[one] == NEVER, inv[one], ret[one])
    overlaps = np.flatnonzero((proc[one] == proc[two]) & (inv[two] < ends) & ~together)
    if len(overlaps):
        first, second = one[overlaps[0]], two[overlaps[0]]
        raise HistoryError(
            f"{_both(history, first, second)}: process {proc[first]} begins the second before the first has ended; what"
            " is in flight side by side is of several processes, and each process's lines are in the order of time"
        )


def _both(history: LogHistory, first: int, second: int) -> str:
    return f"{history.places.name(first)} and {history.places.name(second)}"
