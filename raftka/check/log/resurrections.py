"""Deleted keys that are read again.

A tombstone that is removed because it is old takes its key with it: no replica has an older record of the key then.
So once a reader has gone past the offset of such a tombstone without it, no later poll returns an older record of the
key. And a final read that misses the tombstone has no older record of the key, unless the read takes so long that the
tombstone has become old on the way.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from raftka.check.log.columns import NEVER, OK, UNKNOWN, Numbers
from raftka.check.log.compaction import Supersessions, is_compacted, least_behind, retention_of
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import poll_line, record_line, record_order, seek_line, send_line
from raftka.check.verdict import Anomaly, Report


class _Keyed(NamedTuple):
    """Records that certainly were polled of compacted partitions, as rows, and the group of each."""

    rows: Numbers
    group: Numbers


class _Gaps(NamedTuple):
    """What processes went past.

    Attributes:
        begin: The key of the first (partition, offset) in each gap.
        before: The record before it; UNKNOWN: a seek is.
        after: The record behind it.
    """

    begin: Numbers
    before: Numbers
    after: Numbers


def check_resurrections(index: LogIndex, report: Report) -> None:
    """Report resurrected-key: first by what polls saw one after the other, then by each final read alone."""
    its = index.supersessions
    if its is None:
        return
    records, sends = index.history.records, index.history.sends
    rows = np.flatnonzero(index.is_ok_record & is_compacted(index.history)[records.tp] & (index.send_of != UNKNOWN))
    group = its.group[index.send_of[rows]]
    keyed = _Keyed(rows[group != UNKNOWN], group[group != UNKNOWN])
    certain = index.placed[its.is_certain[index.placed] & (its.group[index.placed] != UNKNOWN)]
    _check_polls(index, its, report, certain[sends.tombstone[certain] == 1], keyed)
    _check_finals(index, its, report, certain, keyed)


def _check_polls(index: LogIndex, its: Supersessions, report: Report, tombstones: Numbers, keyed: _Keyed) -> None:
    history, polls, records = index.history, index.history.polls, index.history.records
    gaps = _gaps(index)
    missed, by = _missed_first(index, tombstones, gaps)
    # Where a later record of the key may have replaced it, older ones may still be on other replicas.
    is_old = missed < its.superseded[tombstones]
    tombstones, missed, by = tombstones[is_old], missed[is_old], by[is_old]
    rows, group = keyed
    since = least_behind(its.group[tombstones], index.place[tombstones], missed, group, records.off[rows])
    wrong = rows[since < polls.inv[records.poll[rows]]]

    def describe(row: int) -> Anomaly:
        send = int(index.send_of[row])
        is_behind = (its.group[tombstones] == its.group[send]) & (index.place[tombstones] > records.off[row])
        at = np.flatnonzero(is_behind)
        at = at[np.argmin(missed[at])]
        tombstone, one, two = int(tombstones[at]), int(gaps.before[by[at]]), int(gaps.after[by[at]])
        poll, following = int(records.poll[one]), int(records.poll[two])
        if one == UNKNOWN:
            begin = int(index.sessions.sought[following])
            steps = [seek_line(history, int(index.sessions.seek[following])), record_line(history, two)]
        else:
            begin = int(records.off[one])
            steps = [poll_line(history, poll, one), poll_line(history, following, two)]
            if poll == following:
                steps = [poll_line(history, poll, one, two)]
        text = (
            f"key {_key(index, send)} was deleted at offset {index.place[tombstone]}; process"
            f" {polls.proc[following]} went past it without the tombstone, from offset {begin} to {records.off[two]},"
            f" and later process {polls.proc[records.poll[row]]} polled {_value(index, row)}"
        )
        lines = [send_line(history, send), send_line(history, tombstone), *steps, record_line(history, row)]
        return Anomaly(history.partitions[records.tp[row]], text, lines)

    report.add("resurrected-key", wrong, describe, order=partial(record_order, history))


def _gaps(index: LogIndex) -> _Gaps:
    """Return what processes went past, between two records or between a seek and a record, where offsets are known."""
    history, polls, records = index.history, index.history.polls, index.history.records
    is_chosen = is_compacted(history)
    within = np.flatnonzero((np.diff(records.poll) == 0) & index.is_ok_record[:-1] & is_chosen[records.tp[:-1]])
    one, two = index.sessions.pairs((polls.type == OK) & (polls.size > 0) & is_chosen[polls.tp])
    is_assigned = ~index.sessions.is_subscribed[two]
    one, two = one[is_assigned], two[is_assigned]
    before = np.concatenate([within, polls.first[one] + polls.size[one] - 1])
    after = np.concatenate([within + 1, polls.first[two]])
    is_gap = index.position[after] - index.position[before] > 1
    before, after = before[is_gap], after[is_gap]
    first = index.sessions.first_after_seek((polls.type == OK) & (polls.size > 0) & is_chosen[polls.tp])
    first = first[~index.sessions.is_subscribed[first]]
    # Beyond every record all are the same; keys have no room for more.
    sought = np.minimum(index.sessions.sought[first], int(records.off.max(initial=0)) + 1)
    begin = np.concatenate([index.record_key[before] + 1, history.key(polls.tp[first], sought)])
    before = np.concatenate([before, np.full(len(first), UNKNOWN)])
    return _Gaps(begin, before, np.concatenate([after, polls.first[first]]))


def _missed_first(index: LogIndex, tombstones: Numbers, past: _Gaps) -> tuple[Numbers, Numbers]:
    """Return for each tombstone the end of the first poll that went past it without it, and the gap; NEVER: none did.

    Args:
        index: Of the history.
        tombstones: Rows of sends, by partition and offset.
        past: What processes went past.
    """
    history = index.history
    ended = history.polls.ret[history.records.poll[past.after]]
    keys = history.key(history.sends.tp[tombstones], index.place[tombstones])
    begin = np.searchsorted(keys, past.begin)
    end = np.searchsorted(keys, index.record_key[past.after])
    missed, by = np.full(len(tombstones), NEVER), np.full(len(tombstones), UNKNOWN)
    gaps = np.flatnonzero(begin < end)
    # For each tombstone the next one, from itself on, that no gap was found for yet.
    following = list(range(len(tombstones) + 1))
    for gap in gaps[np.argsort(ended[gaps], kind="stable")].tolist():
        at = _found(following, int(begin[gap]))
        while at < end[gap]:
            missed[at], by[at] = ended[gap], gap
            following[at] = at + 1
            at = _found(following, at)
    return missed, by


def _found(following: list[int], at: int) -> int:
    """Return the end of a chain; what is on the way is shortened."""
    while following[at] != at:
        following[at] = following[following[at]]
        at = following[at]
    return at


def _check_finals(index: LogIndex, its: Supersessions, report: Report, certain: Numbers, keyed: _Keyed) -> None:
    history, polls, records, sends = index.history, index.history.polls, index.history.records, index.history.sends
    newest = dict(zip(its.group[certain].tolist(), certain.tolist(), strict=True))
    retention = retention_of(history)
    ends: dict[tuple[int, int], int] = {}
    for poll in np.flatnonzero((polls.final == 1) & (polls.type == OK)).tolist():
        stream = int(polls.proc[poll]), int(polls.tp[poll])
        ends[stream] = max(ends.get(stream, UNKNOWN), int(polls.ret[poll]))
    # By final reader and key, the last record that it got.
    folds: dict[tuple[int, int, int], int] = {}
    is_final = polls.final[records.poll[keyed.rows]] == 1
    for row, group in zip(keyed.rows[is_final].tolist(), keyed.group[is_final].tolist(), strict=True):
        fold = int(polls.proc[records.poll[row]]), int(records.tp[row]), group
        if fold not in folds or records.off[row] > records.off[folds[fold]]:
            folds[fold] = row
    wrong: dict[int, int] = {}
    for (proc, tp, group), row in folds.items():
        last = newest.get(group, UNKNOWN)
        began = polls.inv[records.poll[row]]
        if last == UNKNOWN or not sends.tombstone[last] or index.place[last] <= records.off[row]:
            continue
        # One that was answered later, or not at all, may have come behind what the reader has seen.
        is_known = sends.type[last] == OK and sends.ret[last] < began
        if is_known and ends[proc, tp] - began < retention[tp]:
            wrong[row] = last

    def describe(row: int) -> Anomaly:
        send, last = int(index.send_of[row]), wrong[row]
        text = (
            f"key {_key(index, send)} was deleted at offset {index.place[last]}, and the final read of process"
            f" {polls.proc[records.poll[row]]} ends with {_value(index, row)}"
        )
        lines = [send_line(history, send), send_line(history, last), record_line(history, row)]
        return Anomaly(history.partitions[records.tp[row]], text, lines)

    rows = np.array(sorted(wrong), np.int64)
    report.add("resurrected-key", rows, describe, order=partial(record_order, history))


def _key(index: LogIndex, send: int) -> str:
    return repr(index.history.values[index.history.sends.key[send]])


def _value(index: LogIndex, row: int) -> str:
    records = index.history.records
    return f"its older record {index.history.values[records.val[row]]!r} at offset {records.off[row]}"
