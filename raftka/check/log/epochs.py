"""Order of epochs: each leader begins a higher one, and who has been deposed commits nothing any more.

The epoch of an acknowledgement is that of the leader that gave it. To an idempotent producer's retry a later leader may
acknowledge what an earlier one has appended, so that along the log only others' epochs rise; in time all do.
"""

import numpy as np

from raftka.check.levels import Level
from raftka.check.log.columns import OK, UNKNOWN, Numbers
from raftka.check.log.index import LogIndex
from raftka.check.log.lines import send_line
from raftka.check.running import by_partition, prefix_max, take, together
from raftka.check.sorting import stable_order
from raftka.check.verdict import EXAMPLES, Anomaly, Report


def check_epochs(index: LogIndex, report: Report) -> None:
    """Report nonmonotonic-epoch."""
    sends = index.history.sends
    epochs = sends.epoch[sends.epoch >= 0]
    if len(epochs) and int(epochs.min()) < int(epochs.max()):
        _check_time(index, report)
        _check_log(index, report)


def _check_time(index: LogIndex, report: Report) -> None:
    """A leader of a higher epoch has answered, so a majority knows that epoch; later none commits in a lower one."""
    history, sends = index.history, index.history.sends
    rows = np.flatnonzero((sends.type == OK) & (index.level > Level.NO_ACK) & (sends.epoch >= 0))
    found: list[Numbers] = []
    other: dict[int, int] = {}
    for mine in by_partition(sends.tp, rows[stable_order(sends.tp[rows])]):
        ended = mine[np.argsort(sends.ret[mine], kind="stable")]
        largest, at = prefix_max(sends.epoch[ended])
        later = mine[index.promised[mine]]
        before = np.searchsorted(sends.ret[ended], sends.inv[later]) - 1
        wrong = np.flatnonzero((before >= 0) & (take(largest, before, UNKNOWN) > sends.epoch[later]))
        found.append(later[wrong])
        first = wrong[:EXAMPLES]
        other.update(zip(later[first].tolist(), ended[at[before[first]]].tolist(), strict=True))

    def describe(row: int) -> Anomaly:
        before = other[row]
        text = (
            f"{_value(index, row)} was sent after {_value(index, before)} had been acknowledged in epoch"
            f" {sends.epoch[before]}, and acknowledged in epoch {sends.epoch[row]}"
        )
        return Anomaly(history.partitions[sends.tp[row]], text, [send_line(history, before), send_line(history, row)])

    report.add("nonmonotonic-epoch", together(found), describe, order=lambda row: (sends.tp[row], sends.line[row]))


def _check_log(index: LogIndex, report: Report) -> None:
    """Without idempotence a record is appended in the epoch it is acknowledged in: none behind has a lower one."""
    history, sends, claims = index.history, index.history.sends, index.claims
    rows = claims[sends.epoch[claims] >= 0]
    rows = rows[np.argsort(history.key(sends.tp[rows], sends.off[rows]), kind="stable")]
    found: list[Numbers] = []
    other: dict[int, int] = {}
    for mine in by_partition(sends.tp, rows):
        largest, at = prefix_max(np.where(sends.idem[mine] == 0, sends.epoch[mine], UNKNOWN))
        wrong = np.flatnonzero(largest > sends.epoch[mine])
        # In the order of time it is told already.
        wrong = wrong[sends.ret[mine[at[wrong]]] >= sends.inv[mine[wrong]]]
        found.append(mine[wrong])
        first = wrong[:EXAMPLES]
        other.update(zip(mine[first].tolist(), mine[at[first]].tolist(), strict=True))

    def describe(row: int) -> Anomaly:
        before = other[row]
        text = (
            f"{_value(index, row)} was acknowledged in epoch {sends.epoch[row]}, behind {_value(index, before)} of"
            f" epoch {sends.epoch[before]}"
        )
        return Anomaly(history.partitions[sends.tp[row]], text, [send_line(history, before), send_line(history, row)])

    report.add(
        "nonmonotonic-epoch",
        together(found),
        describe,
        order=lambda row: (sends.tp[row], sends.off[row], sends.line[row]),
    )


def _value(index: LogIndex, row: int) -> str:
    return f"{index.history.values[index.history.sends.val[row]]!r} at offset {index.history.sends.off[row]}"
