"""What one process saw, poll after poll: each record once, in order, nothing left out, and no step back."""

from functools import partial

import numpy as np

from raftka.check.log.columns import OK, UNKNOWN, UNRECORDED, Flags, Numbers, Polls
from raftka.check.log.compaction import is_compacted, is_missed_between, why_missed
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import poll_line, record_order, seek_line
from raftka.check.verdict import Anomaly, Report


def check_within(index: LogIndex, report: Report) -> None:
    """Report int-poll-skip and int-nonmonotonic-poll."""
    history, records = index.history, index.history.records
    rows = np.flatnonzero((np.diff(records.poll) == 0) & index.is_ok_record[:-1])
    steps = index.position[rows + 1] - index.position[rows]

    def describe(row: int) -> Anomaly:
        return _step(index, int(records.poll[row]), row, int(records.poll[row]), row + 1)

    skips = _missed(index, rows + 1, steps > 1, index.position[rows])
    order = partial(record_order, history)
    report.add("int-poll-skip", rows[skips], describe, order=order)
    report.add("int-nonmonotonic-poll", rows[steps < 1], describe, order=order)


def check_across(index: LogIndex, report: Report) -> None:
    """Report poll-skip and nonmonotonic-poll.

    What a group's rebalance may have moved is allowed: a process that subscribes goes on where somebody else has
    committed.
    """
    polls, sessions = index.history.polls, index.sessions
    first, last = polls.first, polls.first + polls.size - 1
    one, two = sessions.pairs((polls.type == OK) & (polls.size > 0))
    steps = index.position[first[two]] - index.position[last[one]]

    def describe(at: int) -> Anomaly:
        return _step(index, int(one[at]), int(last[one[at]]), int(two[at]), int(first[two[at]]))

    def order(at: int) -> tuple[int, ...]:
        return _stream_order(polls, two[at])

    is_group = sessions.is_subscribed[two]
    for name, flags in (
        ("poll-skip", _missed(index, first[two], steps > 1, index.position[last[one]])),
        ("nonmonotonic-poll", steps < 1),
    ):
        is_wrong = np.flatnonzero(flags & ~is_group)
        report.add(name, is_wrong, describe, order=order, allowed=int((flags & is_group).sum()))


def check_after_seeks(index: LogIndex, report: Report) -> None:
    """Report the same behind a seek, which says where the next poll begins, as the end of a poll does."""
    history, polls, sessions = index.history, index.history.polls, index.sessions
    rows = sessions.first_after_seek((polls.type == OK) & (polls.size > 0))
    first, sought = polls.first[rows], sessions.sought[rows]
    # Beyond every record all are the same; keys have no room for more.
    end = np.minimum(sought, int(history.records.off.max(initial=0)) + 1)
    begin = np.searchsorted(index.offsets, history.key(polls.tp[rows], end))
    behind = index.position[first] - begin

    def describe(at: int) -> Anomaly:
        poll, record = int(rows[at]), int(first[at])
        text = f"process {polls.proc[poll]} sought offset {sought[at]} and then polled {history.records.off[record]}"
        why, missed = why_missed(index, int(begin[at]), record)
        text += why
        lines = [*missed, seek_line(history, int(sessions.seek[poll])), poll_line(history, poll, record)]
        return Anomaly(history.partitions[polls.tp[poll]], text, lines)

    def order(at: int) -> tuple[int, ...]:
        return _stream_order(polls, rows[at])

    is_group = sessions.is_subscribed[rows]
    for name, flags in (
        ("poll-skip", _missed(index, first, behind > 0, begin - 1)),
        ("nonmonotonic-poll", history.records.off[first] < sought),
    ):
        is_wrong = np.flatnonzero(flags & ~is_group)
        report.add(name, is_wrong, describe, order=order, allowed=int((flags & is_group).sum()))


def check_high_watermarks(index: LogIndex, report: Report) -> None:
    """Report nonmonotonic-hw.

    A fetch that names a leader epoch is answered by the leader of that epoch only. One that names none may have been
    answered by a deposed leader, and one that names an older epoch than the one before was: both may be told less.
    """
    history, polls = index.history, index.history.polls
    is_told = (polls.type == OK) & (polls.hw != UNKNOWN) & (polls.epoch != UNKNOWN)
    one, two = index.sessions.pairs(is_told, across_moves=True)
    goes_on = (polls.epoch[two] == UNRECORDED) | (polls.epoch[two] >= polls.epoch[one])
    one, two = one[goes_on], two[goes_on]

    def describe(at: int) -> Anomaly:
        text = f"the high watermark went back from {polls.hw[one[at]]} to {polls.hw[two[at]]} for one process"
        lines = [poll_line(history, int(one[at])), poll_line(history, int(two[at]))]
        return Anomaly(history.partitions[polls.tp[one[at]]], text, lines)

    back = polls.hw[two] < polls.hw[one]
    is_allowed = index.is_rewound(polls.tp[two], polls.hw[two], polls.ret[two])
    report.add(
        "nonmonotonic-hw",
        np.flatnonzero(back & ~is_allowed),
        describe,
        order=lambda at: _stream_order(polls, two[at]),
        allowed=int((back & is_allowed).sum()),
    )


def check_beyond(index: LogIndex, report: Report) -> None:
    """Report read-beyond-hw.

    What a poll returns lies below the high watermark that came with it: beyond it nothing is safe to show.
    """
    history, polls, records = index.history, index.history.polls, index.history.records
    hw = polls.hw[records.poll]
    rows = np.flatnonzero((hw != UNKNOWN) & (records.off >= hw) & index.is_ok_record)
    # A poll is one case, and its first such record tells it.
    rows = rows[np.diff(records.poll[rows], prepend=UNKNOWN) != 0]

    def describe(row: int) -> Anomaly:
        poll = int(records.poll[row])
        text = f"offset {records.off[row]} was returned with a high watermark of {polls.hw[poll]}"
        return Anomaly(history.partitions[polls.tp[poll]], text, [poll_line(history, poll, row)])

    report.add("read-beyond-hw", rows, describe, order=partial(record_order, history))


def _stream_order(polls: Polls, row: int) -> tuple[int, ...]:
    return polls.proc[row], polls.tp[row], polls.line[row]


def _step(index: LogIndex, one: int, before: int, two: int, after: int) -> Anomaly:
    history = index.history
    offsets = history.records.off
    process = history.polls.proc[one]
    text = f"process {process} polled offset {offsets[before]} and then {offsets[after]}"
    lines = [poll_line(history, one, before, after)]
    if one != two:
        lines = [poll_line(history, one, before), poll_line(history, two, after)]
    why, missed = why_missed(index, int(index.position[before]) + 1, after)
    return Anomaly(history.partitions[history.polls.tp[one]], text + why, [*missed, *lines])


def _missed(index: LogIndex, records: Numbers, is_skip: Flags, last: Numbers) -> Flags:
    """Return which of these records come after a skip that left out what was due and not deleted on purpose.

    `last` says for each of them which of the index's offsets came before it.
    """
    found = np.flatnonzero(is_skip)
    tp = index.history.records.tp[records[found]]
    due = index.due_before(records[found])
    flags = np.zeros(len(records), np.bool_)
    flags[found] = (due > last[found]) & (index.offsets[due] >= index.history.key(tp, index.trim[tp]))
    if index.supersessions is not None:
        rows = found[flags[found] & is_compacted(index.history)[tp]]
        tp = index.history.records.tp[records[rows]]
        trimmed = np.searchsorted(index.offsets, index.history.key(tp, index.trim[tp]))
        begin = np.maximum(last[rows] + 1, trimmed)
        flags[rows] = is_missed_between(index, begin, index.position[records[rows]], records[rows])
    return flags
