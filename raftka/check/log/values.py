"""What was read: values that nobody sent, that were refused, that come from the future, that moved or changed."""

from functools import partial

import numpy as np

from raftka.check.log.columns import FAIL, NO_ACK, OK, UNKNOWN, Flags, LogHistory, Numbers
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import record_line, record_order, send_line
from raftka.check.running import take
from raftka.check.slots import is_repeated
from raftka.check.verdict import Anomaly, Report


def check_sources(index: LogIndex, report: Report) -> None:
    """Report phantom, aborted-read and future-read."""
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
    report.add("phantom", np.flatnonzero(~is_known), phantom, order=partial(record_order, history))
    is_refused = is_known & (take(history.sends.type, send_of, UNKNOWN) == FAIL)
    report.add("aborted-read", np.flatnonzero(is_refused), aborted, order=partial(record_order, history))
    is_early = history.polls.ret[history.records.poll] < take(history.sends.inv, send_of, UNKNOWN)
    report.add("future-read", np.flatnonzero(is_known & is_early), future, order=partial(record_order, history))


def check_offsets(index: LogIndex, report: Report) -> None:
    """Report inconsistent-offsets: two values at one offset, where a poll or a promise says that they are there."""
    history, claims = index.history, index.claims
    sends, records = history.sends, history.records
    # Rows from `len(records)` on are claims.
    keys = np.concatenate([index.position, index.claim_position])
    values = np.concatenate([records.val, sends.val[claims]])
    order, again = _changes_within(keys, values, np.concatenate([index.stays, np.ones(len(claims), np.bool_)]))

    def line(row: int) -> dict[str, object]:
        return record_line(history, row) if row < len(records) else send_line(history, claims[row - len(records)])

    def where(at: int) -> tuple[int, int]:
        one = int(order[at])
        if one < len(records):
            return records.tp[one], records.off[one]
        return sends.tp[claims[one - len(records)]], sends.off[claims[one - len(records)]]

    def describe(at: int) -> Anomaly:
        one, two = int(order[at]), int(order[at + 1])
        tp, offset = where(at)
        text = f"offset {offset} holds {history.values[values[one]]!r} and {history.values[values[two]]!r}"
        return Anomaly(history.partitions[tp], text, [line(one), line(two)])

    report.add("inconsistent-offsets", again, describe, order=where)


def check_acks(index: LogIndex, report: Report) -> None:
    """Report inconsistent-acks.

    Two leaders may acknowledge two values at one offset where not both have promised it; one leader may not.
    """
    history, sends = index.history, index.history.sends
    rows = np.flatnonzero((sends.type == OK) & (sends.acks != NO_ACK) & (sends.off >= 0) & (sends.epoch >= 0))
    # Few are left, or none.
    rows = rows[is_repeated(len(history.partitions), sends.tp[rows], sends.off[rows])]
    order = rows[np.lexsort((sends.off[rows], sends.epoch[rows], sends.tp[rows]))]
    one, two = order[:-1], order[1:]
    same = (
        (sends.tp[one] == sends.tp[two]) & (sends.epoch[one] == sends.epoch[two]) & (sends.off[one] == sends.off[two])
    )
    # Two promises at one offset are inconsistent-offsets, whatever the epoch.
    is_claim = np.zeros(len(sends), np.bool_)
    is_claim[index.claims] = True
    same &= ~(is_claim[one] & is_claim[two])

    def describe(at: int) -> Anomaly:
        first, second = int(one[at]), int(two[at])
        text = f"the leader of epoch {sends.epoch[first]} acknowledged two values at offset {sends.off[first]}"
        lines = [send_line(history, first), send_line(history, second)]
        return Anomaly(history.partitions[sends.tp[first]], text, lines)

    def place(at: int) -> tuple[int, ...]:
        row = one[at]
        return sends.tp[row], sends.epoch[row], sends.off[row], sends.line[row]

    report.add("inconsistent-acks", np.flatnonzero(same), describe, order=place)


def check_duplicates(index: LogIndex, report: Report) -> None:
    """Report duplicate: one value at two offsets; a producer that is not idempotent may have sent it twice."""
    history, claims = index.history, index.claims
    sends, records = history.sends, history.records
    sent = np.concatenate([index.send_of, claims])
    offsets = np.concatenate([records.off, sends.off[claims]])
    order, again = _changes_within(sent, offsets, sent != UNKNOWN)
    is_idempotent = sends.idem[sent[order[again]]] == 1

    def describe(at: int) -> Anomaly:
        one, two = int(order[at]), int(order[at + 1])
        row = int(sent[one])
        text = f"{history.values[sends.val[row]]!r} is at offset {offsets[one]} and at offset {offsets[two]}"
        lines = [send_line(history, row)] + [record_line(history, each) for each in (one, two) if each < len(records)]
        return Anomaly(history.partitions[sends.tp[row]], text, lines)

    report.add(
        "duplicate",
        again[is_idempotent],
        describe,
        order=lambda at: (sends.line[sent[order[at]]],),
        allowed=int((~is_idempotent).sum()),
    )


def _changes_within(keys: Numbers, values: Numbers, chosen: Flags) -> tuple[Numbers, Numbers]:
    """Return (rows, ascending by key; places in these where the value differs from the next one's, once per key).

    Only the chosen rows count. Keys are indexes: small, and not negative where they are chosen.
    """
    rows = np.flatnonzero(chosen)
    if len(rows) < len(keys):
        keys, values = keys[rows], values[rows]
    last = np.empty(int(keys.max(initial=0)) + 1, np.int64)
    last[keys] = values
    # Sorted are only the keys with several values, for they are few or none.
    is_several = np.zeros(len(last), np.bool_)
    is_several[keys[last[keys] != values]] = True
    several = np.flatnonzero(is_several[keys]) if is_several.any() else rows[:0]
    order = several[np.argsort(keys[several], kind="stable")]
    changes = np.flatnonzero((np.diff(keys[order]) == 0) & (np.diff(values[order]) != 0))
    return rows[order], changes[np.unique(keys[order][changes], return_index=True)[1]]


def _tp(history: LogHistory, record: int) -> str:
    return history.partitions[int(history.records.tp[record])]


def _value(history: LogHistory, record: int) -> str:
    return f"{history.values[history.records.val[record]]!r} at offset {history.records.off[record]}"
