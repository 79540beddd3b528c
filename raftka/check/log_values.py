"""What was read: values that nobody sent, that were refused, that come from the future, that moved or changed."""

import numpy as np

from raftka.check.log_columns import FAIL, LEADER_ACK, OK, UNKNOWN, LogHistory, Numbers
from raftka.check.log_index import LogIndex
from raftka.check.log_lines import record_line, send_line
from raftka.check.verdict import Anomaly, Report


def check_values(index: LogIndex, report: Report) -> None:
    """Report phantom, aborted-read, future-read, inconsistent-offsets, inconsistent-acks and duplicate."""
    _check_sources(index, report)
    _check_offsets(index, report)
    _check_acks(index, report)
    _check_duplicates(index, report)


def _check_sources(index: LogIndex, report: Report) -> None:
    history, send_of = index.history, index.send_of

    def phantom(row: int) -> Anomaly:
        return Anomaly(
            _tp(history, row), f"{_value(history, row)} was polled, but never sent", [record_line(history, row)]
        )

    def aborted(row: int) -> Anomaly:
        text = f"{_value(history, row)} was polled, but its send has certainly failed"
        return Anomaly(_tp(history, row), text, [send_line(history, send_of[row]), record_line(history, row)])

    def future(row: int) -> Anomaly:
        text = f"{_value(history, row)} was polled before it was sent"
        return Anomaly(_tp(history, row), text, [record_line(history, row), send_line(history, send_of[row])])

    is_known = send_of != UNKNOWN
    report.add("phantom", np.flatnonzero(~is_known), phantom)
    report.add("aborted-read", np.flatnonzero(is_known & (history.sends.type[send_of] == FAIL)), aborted)
    is_early = history.polls.ret[history.records.poll] < history.sends.inv[send_of]
    report.add("future-read", np.flatnonzero(is_known & is_early), future)


def _check_offsets(index: LogIndex, report: Report) -> None:
    """Two values at one offset, where a poll or a promise says that they are there."""
    history, claims = index.history, index.claims
    sends, records = history.sends, history.records
    keys = np.concatenate([index.record_key, history.key(sends.tp[claims], sends.off[claims])])
    values = np.concatenate([records.val, sends.val[claims]])
    # Rows from `len(records)` on are claims.
    chosen = np.concatenate([np.flatnonzero(index.stays), np.arange(len(records), len(keys))])
    order = chosen[np.argsort(keys[chosen])]
    again = _changes_within(keys[order], values[order])

    def line(row: int) -> dict[str, object]:
        return record_line(history, row) if row < len(records) else send_line(history, claims[row - len(records)])

    def describe(at: int) -> Anomaly:
        one, two = int(order[at]), int(order[at + 1])
        tp = records.tp[one] if one < len(records) else sends.tp[claims[one - len(records)]]
        offset = records.off[one] if one < len(records) else sends.off[claims[one - len(records)]]
        text = f"offset {offset} holds {history.values[values[one]]!r} and {history.values[values[two]]!r}"
        return Anomaly(history.partitions[tp], text, [line(one), line(two)])

    report.add("inconsistent-offsets", again, describe)


def _check_acks(index: LogIndex, report: Report) -> None:
    """At acks=1 two leaders may acknowledge different values at one offset, but one leader may not."""
    history, sends = index.history, index.history.sends
    rows = np.flatnonzero((sends.acks == LEADER_ACK) & (sends.type == OK) & (sends.off >= 0) & (sends.epoch >= 0))
    order = rows[np.lexsort((sends.off[rows], sends.epoch[rows], sends.tp[rows]))]
    one, two = order[:-1], order[1:]
    same = (
        (sends.tp[one] == sends.tp[two]) & (sends.epoch[one] == sends.epoch[two]) & (sends.off[one] == sends.off[two])
    )

    def describe(at: int) -> Anomaly:
        first, second = int(one[at]), int(two[at])
        text = f"the leader of epoch {sends.epoch[first]} acknowledged two values at offset {sends.off[first]}"
        lines = [send_line(history, first), send_line(history, second)]
        return Anomaly(history.partitions[sends.tp[first]], text, lines)

    report.add("inconsistent-acks", np.flatnonzero(same), describe)


def _check_duplicates(index: LogIndex, report: Report) -> None:
    """One value at two offsets; a producer that is not idempotent may have sent it twice."""
    history, claims = index.history, index.claims
    sends, records = history.sends, history.records
    sent = np.concatenate([index.send_of, claims])
    offsets = np.concatenate([records.off, sends.off[claims]])
    known = np.flatnonzero(sent != UNKNOWN)
    order = known[np.argsort(sent[known])]
    again = _changes_within(sent[order], offsets[order])
    is_idempotent = sends.idem[sent[order[again]]] == 1

    def describe(at: int) -> Anomaly:
        one, two = int(order[at]), int(order[at + 1])
        row = int(sent[one])
        text = f"{history.values[sends.val[row]]!r} is at offset {offsets[one]} and at offset {offsets[two]}"
        lines = [send_line(history, row)] + [record_line(history, each) for each in (one, two) if each < len(records)]
        return Anomaly(history.partitions[sends.tp[row]], text, lines)

    report.add("duplicate", again[is_idempotent], describe, allowed=int((~is_idempotent).sum()))


def _changes_within(keys: Numbers, values: Numbers) -> Numbers:
    """Return where a value differs from the next one, of ascending keys, and the key does not: once per key."""
    changes = np.flatnonzero((np.diff(keys) == 0) & (np.diff(values) != 0))
    return changes[np.unique(keys[changes], return_index=True)[1]]


def _tp(history: LogHistory, record: int) -> str:
    return history.partitions[int(history.records.tp[record])]


def _value(history: LogHistory, record: int) -> str:
    return f"{history.values[history.records.val[record]]!r} at offset {history.records.off[record]}"
