"""What was acknowledged and is not there, and what was there and is gone."""

from typing import Any

import numpy as np

from raftka.check.levels import Level
from raftka.check.log.columns import OK, UNKNOWN, Flags, Numbers
from raftka.check.log.compaction import is_gone_by_compaction, why_kept
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import record_line, send_line
from raftka.check.verdict import Anomaly, Report


def check_losses(index: LogIndex, report: Report) -> None:
    """Report lost-write, unseen and lost-read; what a level allows to be lost is counted."""
    history, sends = index.history, index.history.sends
    missed = np.flatnonzero((sends.type == OK) & ~index.polled & ~_is_trimmed(index, sends.off, sends.tp))
    missed = missed[~is_gone_by_compaction(index, missed)]
    is_allowed = index.is_excused(missed) | (index.level[missed] == Level.NO_ACK)
    is_allowed |= (index.level[missed] == Level.LEADER_ACK) & ~index.is_survived(missed)
    is_below = (sends.off[missed] != UNKNOWN) & (sends.off[missed] < _end_of_reads(index)[sends.tp[missed]])

    def describe(row: int) -> Anomaly:
        where = "at an unknown offset" if sends.off[row] == UNKNOWN else f"at offset {sends.off[row]}"
        level = Level(int(index.level[row]))
        text = f"{history.values[sends.val[row]]!r} was acknowledged {where} ({level.name.lower()}) and is never read"
        text += _why_not_cut_off(index, row)
        why, lines = _what_is_there(index, row)
        return Anomaly(history.partitions[sends.tp[row]], text + why, [send_line(history, row), *lines])

    for name, chosen in (("lost-write", is_below), ("unseen", ~is_below)):
        report.add(
            name,
            missed[chosen & ~is_allowed],
            describe,
            order=lambda row: (sends.line[row],),
            allowed=int((chosen & is_allowed).sum()),
        )
    _check_reads(index, report)


def _check_reads(index: LogIndex, report: Report) -> None:
    """What a consumer has seen stays: at every level it was on a majority, which only power takes from all."""
    history, sends = index.history, index.history.sends
    gone = np.flatnonzero(index.polled & ~index.read_at_last & ~_is_trimmed(index, index.place, sends.tp))
    gone = gone[~_is_left_out(index, gone)]
    gone = gone[~is_gone_by_compaction(index, gone)]
    is_allowed = index.is_excused(gone)
    records = np.flatnonzero(index.is_ok_record & (index.send_of != UNKNOWN))
    first = np.full(len(sends), UNKNOWN)
    first[index.send_of[records[::-1]]] = records[::-1]

    def describe(row: int) -> Anomaly:
        text = f"{history.values[sends.val[row]]!r} was polled at offset {index.place[row]}; the final reads miss it"
        text += _why_not_cut_off(index, row)
        why, others = _what_is_there(index, row)
        lines = [send_line(history, row), record_line(history, int(first[row])), *others]
        return Anomaly(history.partitions[sends.tp[row]], text + why, lines)

    report.add(
        "lost-read",
        gone[~is_allowed],
        describe,
        order=lambda row: (sends.line[row],),
        allowed=int(is_allowed.sum()),
    )


def _is_left_out(index: LogIndex, sends: Numbers) -> Flags:
    """Return which of these sends final reads at read_committed leave out: their transaction was not committed."""
    if index.transactions is None:
        return np.zeros(len(sends), np.bool_)
    tp = index.history.sends.tp[sends]
    flags: Flags = index.transactions.is_hidden[sends] & index.transactions.is_read_committed_at_last[tp]
    return flags


def _what_is_there(index: LogIndex, row: int) -> tuple[str, list[dict[str, Any]]]:
    """Return why compaction does not explain a loss, and what the final reads have of its key; else nothing."""
    why = why_kept(index, row)
    if not why:
        return "", []
    history, records = index.history, index.history.records
    is_of_key = np.append(history.sends.key == history.sends.key[row], False)[index.send_of]
    is_final = index.is_ok_record & (history.polls.final[records.poll] == 1)
    found = np.flatnonzero(is_of_key & is_final & (records.tp == history.sends.tp[row]))
    if not len(found):
        return f"; it is a record {why}; the final reads have nothing of the key", []
    last = int(found[np.argmax(records.off[found])])
    text = f"; it is a record {why}; the final reads end with {history.values[records.val[last]]!r} for the key"
    return f"{text}, at offset {records.off[last]}", [record_line(history, last)]


def _why_not_cut_off(index: LogIndex, row: int) -> str:
    if not index.is_survived(np.array([row]))[0]:
        return ""
    return "; later records of its epoch are still there: neither a leader's end nor a power loss leaves a hole"


def _end_of_reads(index: LogIndex) -> Numbers:
    ends = np.zeros(len(index.history.partitions), np.int64)
    records = index.history.records
    np.maximum.at(ends, records.tp[index.is_ok_record], records.off[index.is_ok_record] + 1)
    return ends


def _is_trimmed(index: LogIndex, offset: Numbers, tp: Numbers) -> Flags:
    flags: Flags = (offset != UNKNOWN) & (offset < index.trim[tp])
    return flags
