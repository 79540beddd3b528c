"""At acks=1: is what was acknowledged and is lost just what brokers say that they have cut off their logs?

Two sets of records that were acknowledged at acks=1, at an offset, are compared in both directions:

    lost        the final reads miss it
    truncated   it lies in a range that a broker reports as truncated: its offset does, and its epoch is the range's

The epoch of a record that the final reads have is in its batch. That of a lost one follows from the broker that
answered and the epochs this was elected in; the range must then be that broker's, and cut no earlier than the record
was sent. Where that is not known (librdkafka does not say who answered; a broker was elected while it answered), the
offset alone decides, and the report counts such records.

Lost, and not truncated: a record is gone that nobody has cut off. Truncated, and not lost: one that was cut off is
back; with three replicas, who truncates has by then taken part in an epoch that lacks it. The latter is looked for
among records that nobody acknowledged, too.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from raftka.chaos.broker_logs import BrokerLogs, Truncation

# Log lines have milliseconds.
_SLACK_NS = 2_000_000
_EXAMPLES = 5


class _Line(msgspec.Struct):
    """What matters here of a history's line."""

    f: str
    type: str = ""
    tp: str = ""
    val: str = ""
    acks: str = ""
    inv: int = 0
    ret: int | None = None
    off: int | None = None
    node: int | None = None
    final: bool = False
    recs: list[tuple[int, str]] = []


class LossReport(msgspec.Struct):
    """What was compared; the sets are of records acknowledged by a leader alone.

    Attributes:
        acked: All of them.
        lost: Those that the final reads miss.
        cut: Those that lie in truncated ranges.
        explained: Those that are both.
        explained_by_epoch: Those of the explained of which broker and epoch are known, and are the truncation's.
        truncated: Records that brokers report as truncated, acknowledged or not, each once, however many had it.
        unexplained: Examples of lost records that no broker has truncated.
        revived: Examples of truncated records, acknowledged or not, that are in the final reads.
    """

    acked: int
    lost: int
    cut: int
    explained: int
    explained_by_epoch: int
    truncated: int
    unexplained: list[str]
    revived: list[str]

    @property
    def is_equal(self) -> bool:
        """Whether lost and truncated are the same set, and nothing truncated is back."""
        return self.lost == self.explained == self.cut and not self.revived


class _Reigns:
    """Which epoch a broker led in when."""

    def __init__(self, logs: BrokerLogs, wall_to_run_ns: int) -> None:
        self._elections: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for each in sorted(logs.elections, key=lambda each: each.at_ns):
            self._elections[each.tp, each.node].append((each.at_ns + wall_to_run_ns, each.epoch))

    def epoch(self, tp: str, node: int, inv: int, ret: int) -> int | None:
        """Return the epoch a broker answered in; None where it was elected meanwhile, or was never."""
        reigns = self._elections[tp, node]
        at_inv = bisect_right(reigns, (inv - _SLACK_NS, 2**62))
        at_ret = bisect_right(reigns, (ret + _SLACK_NS, 2**62))
        return reigns[at_ret - 1][1] if at_inv == at_ret > 0 else None


def compare_losses(
    history: Path, logs: BrokerLogs, epochs: Mapping[tuple[str, int], int], wall_to_run_ns: int
) -> LossReport:
    """Compare a history with brokers' logs.

    Args:
        history: Its file.
        logs: What the brokers logged.
        epochs: The epoch of each record of the final reads, by (partition, offset).
        wall_to_run_ns: What to add to wall-clock nanoseconds for those of the history.
    """
    survivors = {
        (line.tp, value): offset for line in _lines(history, "poll") if line.final for offset, value in line.recs
    }
    by_partition: dict[str, list[Truncation]] = defaultdict(list)
    for each in logs.truncations:
        by_partition[each.tp].append(each._replace(at_ns=each.at_ns + wall_to_run_ns))
    reigns = _Reigns(logs, wall_to_run_ns)
    revived = _revived(logs.truncations, epochs)
    report = LossReport(0, 0, 0, 0, 0, _distinct(logs.truncations), [], list(revived.values())[:_EXAMPLES])
    for line in _lines(history, "send"):
        if line.type != "ok" or line.acks != "1" or line.off is None or line.ret is None:
            continue
        report.acked += 1
        found = survivors.get((line.tp, line.val))
        if found is None:
            _explain(line, by_partition[line.tp], reigns, report)
        elif (line.tp, found) in revived:
            report.cut += 1
    return report


def _revived(truncations: list[Truncation], epochs: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], str]:
    """Return the records of the final reads that were truncated, by (partition, offset), each in words."""
    ranges: dict[tuple[str, int], list[Truncation]] = defaultdict(list)
    for each in truncations:
        ranges[each.tp, each.epoch].append(each)
    found: dict[tuple[str, int], str] = {}
    for (tp, offset), epoch in epochs.items():
        for each in ranges.get((tp, epoch), ()):
            if each.first <= offset < each.end:
                found[tp, offset] = f"{tp}: offset {offset} of epoch {epoch}, truncated by broker {each.node}"
    return found


def _explain(line: _Line, truncations: list[Truncation], reigns: _Reigns, report: LossReport) -> None:
    assert line.off is not None
    assert line.ret is not None
    report.lost += 1
    epoch = None if line.node is None else reigns.epoch(line.tp, line.node, line.inv, line.ret)
    for each in truncations:
        is_there = each.first <= line.off < each.end and each.at_ns + _SLACK_NS >= line.inv
        if is_there and line.node in (None, each.node) and epoch in (None, each.epoch):
            report.cut += 1
            report.explained += 1
            report.explained_by_epoch += epoch is not None
            return
    if len(report.unexplained) < _EXAMPLES:
        who = "" if line.node is None else f" by broker {line.node} in epoch {epoch}"
        report.unexplained.append(f"{line.tp}: {line.val!r}, acknowledged at offset {line.off}{who}")


def _distinct(truncations: list[Truncation]) -> int:
    """Count records, each once, of ranges that several brokers may have reported."""
    ends: dict[tuple[str, int], int] = {}
    count = 0
    for each in sorted(truncations, key=lambda each: (each.tp, each.epoch, each.first)):
        covered = max(ends.get((each.tp, each.epoch), 0), each.first)
        count += max(0, each.end - covered)
        ends[each.tp, each.epoch] = max(covered, each.end)
    return count


def _lines(history: Path, f: str) -> Iterator[_Line]:
    decoder = msgspec.json.Decoder(_Line)
    wanted = f'"f":"{f}"'.encode()
    with history.open("rb") as stream:
        for line in stream:
            if wanted in line[:20]:
                yield decoder.decode(line)
