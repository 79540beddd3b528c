"""What answers claimed of a log's length, against what it could have held: places that no record ever had.

The end of a log is that of its final reads. Who answered with more than that has either seen records that were lost
since, as levels allow, or has made them up. A send that may have been lost explains one offset if its producer is
idempotent, and any number if it is not, for each attempt writes again.
"""

import numpy as np

from raftka.check.levels import Level
from raftka.check.log.columns import FAIL, OK, UNKNOWN, Flags, Numbers
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import latest_line, poll_line, record_line, send_line
from raftka.check.verdict import Anomaly, Report


def check_overclaims(index: LogIndex, report: Report) -> None:
    """Report future-latest and future-hw beyond the end of the log, and duplicate where acks=1 named a false place."""
    _check_ends(index, report)
    _check_acks(index, report)


def _check_ends(index: LogIndex, report: Report) -> None:
    """Only where a high watermark tells the end: behind the last record there may be markers, which nobody reads."""
    history, latests, polls = index.history, index.history.latests, index.history.polls
    told, visible = index.ends.told, _may_have_been_visible(index)
    asked = np.flatnonzero(told[latests.tp] != UNKNOWN)
    is_explained = _is_explained(index, visible, latests.tp[asked], latests.off[asked], latests.ret[asked])

    def latest(row: int) -> Anomaly:
        text = f"latest was answered with {latests.off[row]}; {beyond(latests.tp[row])}"
        return Anomaly(history.partitions[latests.tp[row]], text, [latest_line(history, row)])

    def poll(row: int) -> Anomaly:
        text = f"a poll came with a high watermark of {polls.hw[row]}; {beyond(polls.tp[row])}"
        return Anomaly(history.partitions[polls.tp[row]], text, [poll_line(history, row)])

    def beyond(tp: int) -> str:
        return f"the log ends at {_ends(index)[tp]}, and no lost records were beyond"

    report.add("future-latest", asked[~is_explained], latest, order=lambda row: (latests.line[row],))
    came = np.flatnonzero((polls.type == OK) & (polls.hw != UNKNOWN) & (told[polls.tp] != UNKNOWN))
    is_explained = _is_explained(index, visible, polls.tp[came], polls.hw[came], polls.ret[came])
    report.add("future-hw", came[~is_explained], poll, order=lambda row: (polls.line[row],))


def _check_acks(index: LogIndex, report: Report) -> None:
    """A record that one leader has acknowledged may be lost and another attempt's be read, at another place.

    Not where a later record of the same epoch is at its acknowledged place, for then that leader's log was not cut off
    there; nor where nothing could have filled the log up to the acknowledged place.
    """
    history, sends, records = index.history, index.history.sends, index.history.records
    moved = np.flatnonzero(index.moved & index.polled & (sends.off != UNKNOWN))
    if not len(moved):
        return
    known = np.flatnonzero((index.send_of != UNKNOWN) & index.is_ok_record)
    its = index.send_of[known]
    # Who was polled at its place was on a majority, which only power takes again.
    were_there = (sends.type == OK) & index.is_at_place & (sends.epoch >= 0)
    is_wrong = index.is_survived(moved, were_there) & ~index.is_excused(moved)
    lost = _may_be_lost(index)
    is_wrong |= ~_is_explained(index, lost, sends.tp[moved], sends.off[moved] + 1, sends.ret[moved])
    is_wrong &= sends.idem[moved] == 1

    def describe(row: int) -> Anomaly:
        read = int(known[its == row][0])
        text = (
            f"{history.values[sends.val[row]]!r} was acknowledged at offset {sends.off[row]}, where it never was,"
            f" and is at offset {records.off[read]}"
        )
        return Anomaly(history.partitions[sends.tp[row]], text, [send_line(history, row), record_line(history, read)])

    report.add(
        "duplicate",
        moved[is_wrong],
        describe,
        order=lambda row: (sends.line[row],),
        allowed=int((~is_wrong).sum()),
    )


def _ends(index: LogIndex) -> Numbers:
    ends: Numbers = np.maximum(index.ends.read, index.ends.told)
    return ends


def _is_explained(index: LogIndex, lost: Flags, tp: Numbers, end: Numbers, until: Numbers) -> Flags:
    """Return whether logs may have come to `end` by then: what is beyond their end now is some of the `lost` sends."""
    missing = end - _ends(index)[tp]
    flags: Flags = missing <= 0
    beyond = np.flatnonzero(~flags)
    if len(beyond):
        sends = index.history.sends
        for each in np.unique(tp[beyond]).tolist():
            rows = beyond[tp[beyond] == each]
            mine = np.flatnonzero(lost & (sends.tp == each))
            once = np.sort(sends.inv[mine[sends.idem[mine] == 1]])
            often = np.sort(sends.inv[mine[sends.idem[mine] == 0]])
            flags[rows] = np.searchsorted(once, until[rows], side="right") >= missing[rows]
            flags[rows] |= np.searchsorted(often, until[rows], side="right") > 0
    return flags


def _may_be_lost(index: LogIndex) -> Flags:
    """For each send whether some attempt of it may have been in a leader's log, and is not any more."""
    sends = index.history.sends
    is_trimmed = (index.place != UNKNOWN) & (index.place < index.trim[sends.tp])
    is_weak = (index.level <= Level.LEADER_ACK) | index.is_excused(np.arange(len(sends)))
    flags: Flags = (sends.type != FAIL) & ((~index.read_at_last & ~is_trimmed) | is_weak)
    return flags


def _may_have_been_visible(index: LogIndex) -> Flags:
    """For each send whether some attempt of it may have been below a high watermark, and is not there any more.

    What is visible is on a majority, whoever was told of it: only power takes it, and only what it may take.
    """
    if not index.history.power_losses:
        return np.zeros(len(index.history.sends), np.bool_)
    flags: Flags = (index.history.sends.type != FAIL) & index.is_excused(np.arange(len(index.history.sends)))
    return flags
