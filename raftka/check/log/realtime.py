"""Order of time against order of offsets: the partition as one linearizable object.

Per partition, with everything sorted by offset, one pass over running minima and maxima decides (Jepsen's ww and wr
cycles with real-time edges, for operations of one record each): O(n log n), nothing is searched.
"""

from functools import partial

import numpy as np

from raftka.check.levels import Level
from raftka.check.log.columns import NEVER, OK, UNKNOWN, LogHistory, Numbers
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import latest_line, record_line, send_line
from raftka.check.running import by_partition, prefix_max, suffix_min, take, together
from raftka.check.sorting import stable_order
from raftka.check.verdict import EXAMPLES, Anomaly, Report


def check_sends(index: LogIndex, report: Report) -> None:
    """Report G0-realtime: a send that began after another one was acknowledged lies behind it."""
    history, sends = index.history, index.history.sends
    found: list[Numbers] = []
    other: dict[int, int] = {}
    # What acks=0 calls its end is that of the sending, not of the writing; and the end of an
    # attempt whose record is lost says nothing of the one that is read.
    is_ended = (sends.type == OK) & (index.level > Level.NO_ACK) & ~index.moved
    ret = np.where(is_ended, sends.ret, NEVER)
    for rows in by_partition(sends.tp, index.placed):
        wrong, before = _overtaken(index.place[rows], sends.inv[rows], index.place[rows], ret[rows])
        found.append(rows[wrong])
        other.update(zip(rows[wrong[:EXAMPLES]].tolist(), rows[before[:EXAMPLES]].tolist(), strict=True))

    def describe(row: int) -> Anomaly:
        before = other[row]
        text = (
            f"{_value(history, row)} was sent after {_value(history, before)} had been acknowledged,"
            f" and lies before it: {index.place[row]} < {index.place[before]}"
        )
        return Anomaly(history.partitions[sends.tp[row]], text, [send_line(history, before), send_line(history, row)])

    report.add(
        "G0-realtime",
        together(found),
        describe,
        order=lambda row: (sends.tp[row], index.place[row], sends.line[row]),
    )


def check_processes(index: LogIndex, report: Report) -> None:
    """Report nonmonotonic-send.

    What one process sent, one after the other, lies in that order; also what it was not told the end of.
    """
    history, sends = index.history, index.history.sends
    # Rows are in the order of lines, and so is what a process did.
    is_placed = np.zeros(len(sends), np.bool_)
    is_placed[index.placed] = True
    rows = np.flatnonzero(is_placed)
    stream = sends.proc[rows] * len(history.partitions) + sends.tp[rows]
    by_stream = stable_order(stream)
    stream, order = stream[by_stream], rows[by_stream]
    place = index.place[order]
    # Few are left, or none.
    wrong = np.flatnonzero((np.diff(stream) == 0) & (np.diff(place) <= 0))
    one, two = order[wrong], order[wrong + 1]

    def describe(at: int) -> Anomaly:
        first, second = int(one[at]), int(two[at])
        text = f"process {sends.proc[first]} sent to offset {index.place[first]} and then to {index.place[second]}"
        lines = [send_line(history, first), send_line(history, second)]
        return Anomaly(history.partitions[sends.tp[first]], text, lines)

    # What nobody was told the end of may arrive late, unless its producer is idempotent and so in order.
    is_unknown = (sends.type[one] != OK) | (index.level[one] == Level.NO_ACK) | index.moved[one]
    is_late = is_unknown & (sends.idem[one] == 0)
    report.add(
        "nonmonotonic-send",
        np.flatnonzero(~is_late),
        describe,
        order=lambda at: (sends.proc[two[at]], sends.tp[two[at]], sends.line[two[at]]),
        allowed=int(is_late.sum()),
    )


def check_polls(index: LogIndex, report: Report) -> None:
    """Report G1c-realtime: a send that began after a poll had returned an offset lies behind that offset."""
    history, sends, records = index.history, index.history.sends, index.history.records
    found: list[Numbers] = []
    other: dict[int, int] = {}
    reads = index.first_ended[index.first_ended != UNKNOWN]
    ends_of = history.polls.ret[records.poll[reads]]
    starts = np.searchsorted(records.tp[reads], np.arange(len(history.partitions) + 1))
    for rows in by_partition(sends.tp, index.placed):
        tp = int(sends.tp[rows[0]])
        its = slice(starts[tp], starts[tp + 1])
        read = reads[its]
        if not len(read):
            continue
        wrong, before = _overtaken(index.place[rows], sends.inv[rows], records.off[read], ends_of[its])
        found.append(rows[wrong])
        other.update(zip(rows[wrong[:EXAMPLES]].tolist(), read[before[:EXAMPLES]].tolist(), strict=True))

    def describe(row: int) -> Anomaly:
        text = (
            f"{_value(history, row)} was sent after offset {records.off[other[row]]} had been polled,"
            f" and lies before it, at {index.place[row]}"
        )
        return Anomaly(
            history.partitions[sends.tp[row]], text, [record_line(history, other[row]), send_line(history, row)]
        )

    report.add(
        "G1c-realtime",
        together(found),
        describe,
        order=lambda row: (sends.tp[row], index.place[row], sends.line[row]),
    )


def check_latests(index: LogIndex, report: Report) -> None:
    """Report stale-, future- and nonmonotonic-latest.

    Latest covers all that was acknowledged at acks=all before it, nothing that began after it, and only grows.
    """
    history, sends, latests = index.history, index.history.sends, index.history.latests
    if not len(latests):
        return
    placed = index.placed
    durable = placed[(sends.type[placed] == OK) & (index.level[placed] >= Level.WRITE_CACHING)]
    parts = [{int(sends.tp[rows[0]]): rows for rows in by_partition(sends.tp, each)} for each in (durable, placed)]
    stale: list[Numbers] = []
    future: list[Numbers] = []
    back: list[Numbers] = []
    proof: dict[tuple[str, int], int] = {}
    for tp in np.unique(latests.tp).tolist():
        asked = np.flatnonzero(latests.tp == tp)
        done = parts[0].get(tp, np.zeros(0, np.int64))
        done = done[np.argsort(sends.ret[done], kind="stable")]
        bound, at = prefix_max(index.place[done])
        before = np.searchsorted(sends.ret[done], latests.inv[asked]) - 1
        wrong = (before >= 0) & (take(bound, before, -1) >= latests.off[asked])
        stale.append(asked[wrong])
        proof |= {
            ("stale", int(row)): int(done[at[each]]) for row, each in zip(asked[wrong], before[wrong], strict=True)
        }
        all_rows = parts[1].get(tp, np.zeros(0, np.int64))
        begun, at = prefix_max(sends.inv[all_rows])
        below = np.searchsorted(index.place[all_rows], latests.off[asked]) - 1
        places = take(index.place[all_rows][at] if len(at) else at, below, NEVER)
        # What it covered may be gone since, and this record have its offset.
        ever = np.full(len(asked), NEVER)
        rewound = index.is_rewound(latests.tp[asked], places, ever, sent_by=latests.ret[asked])
        wrong = (below >= 0) & (take(begun, below, -1) > latests.ret[asked]) & ~rewound
        future.append(asked[wrong])
        proof |= {
            ("future", int(row)): int(all_rows[at[each]]) for row, each in zip(asked[wrong], below[wrong], strict=True)
        }
        ended = asked[np.argsort(latests.ret[asked], kind="stable")]
        bound, at = prefix_max(latests.off[ended])
        before = np.searchsorted(latests.ret[ended], latests.inv[asked]) - 1
        rewound = index.is_rewound(latests.tp[asked], latests.off[asked], latests.ret[asked])
        wrong = (before >= 0) & (take(bound, before, -1) > latests.off[asked]) & ~rewound
        back.append(asked[wrong])
        proof |= {
            ("back", int(row)): int(ended[at[each]]) for row, each in zip(asked[wrong], before[wrong], strict=True)
        }

    def describe(kind: str, words: str, row: int) -> Anomaly:
        other = proof[kind, row]
        line = latest_line(history, other) if kind == "back" else send_line(history, other)
        text = f"latest was answered with {latests.off[row]}, {words}"
        return Anomaly(history.partitions[latests.tp[row]], text, [line, latest_line(history, row)])

    for name, kind, rows, words in (
        (
            "stale-latest",
            "stale",
            stale,
            "though a record at or behind that was acknowledged at acks=all before it was asked",
        ),
        ("future-latest", "future", future, "which covers a record that was sent only after the answer"),
        ("nonmonotonic-latest", "back", back, "after an earlier answer was larger"),
    ):
        report.add(
            name,
            together(rows),
            partial(describe, kind, words),
            order=lambda row: (latests.tp[row], latests.line[row]),
        )


def _overtaken(places: Numbers, began: Numbers, others: Numbers, ended: Numbers) -> tuple[Numbers, Numbers]:
    """Return which of `places` began after something behind them had ended, and for each which of `others` that was.

    `others` are ascending, and not empty.
    """
    ends, at = suffix_min(ended)
    behind = np.searchsorted(others, places, side="right")
    inside = behind < len(others)
    behind = np.minimum(behind, len(others) - 1)
    wrong = np.flatnonzero(inside & (ends[behind] < began))
    return wrong, at[behind[wrong]]


def _value(history: LogHistory, row: int) -> str:
    return repr(history.values[history.sends.val[row]])
