"""A log history as numpy columns: what the checks compute with, and how lines become it.

Times are nanoseconds, an open end is NEVER; offsets and epochs are -1 where the history does not say. Partitions and
values are numbered in the order in which they first appear. A record that was polled is one row of `Records`, which
knows its poll.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raftka.check.errors import HistoryError
from raftka.check.history_file import read_lines
from raftka.check.operations import Assign, Latest, Line, Poll, Seek, Send, Subscribe, Trim

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
UNKNOWN = -1
OK, FAIL, INFO = 0, 1, 2
_TYPES = {"ok": OK, "fail": FAIL, "info": INFO}
# In the order of their promises.
NO_ACK, LEADER_ACK, QUORUM_ACK = 0, 1, 2
_ACKS = {"0": NO_ACK, "1": LEADER_ACK, "all": QUORUM_ACK}


@dataclass(frozen=True, slots=True)
class Sends:
    """One row per record that was sent."""

    line: Numbers
    type: Numbers
    proc: Numbers
    inv: Numbers
    ret: Numbers
    tp: Numbers
    val: Numbers
    acks: Numbers
    off: Numbers
    epoch: Numbers
    idem: Numbers

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True, slots=True)
class Polls:
    """One row per poll; its records are rows `first` to `first + size` of `Records`."""

    line: Numbers
    type: Numbers
    proc: Numbers
    inv: Numbers
    ret: Numbers
    tp: Numbers
    hw: Numbers
    final: Numbers
    size: Numbers

    @property
    def first(self) -> Numbers:
        return np.concatenate([[0], np.cumsum(self.size)[:-1]]).astype(np.int64) if len(self.size) else self.size

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True, slots=True)
class Records:
    """One row per polled record, in the order of the polls."""

    poll: Numbers
    tp: Numbers
    off: Numbers
    val: Numbers

    def __len__(self) -> int:
        return len(self.poll)


@dataclass(frozen=True, slots=True)
class Latests:
    """One row per ListOffsets latest that was answered."""

    line: Numbers
    proc: Numbers
    inv: Numbers
    ret: Numbers
    tp: Numbers
    off: Numbers

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True, slots=True)
class LogHistory:
    """A whole history.

    Attributes:
        moves: What changes where a process reads, with its line: few, and so as they are.
        trims: By partition, the offset below which nothing is missed.
        power_losses: Times at which a fault took what was not fsynced.
    """

    sends: Sends
    polls: Polls
    records: Records
    latests: Latests
    partitions: list[str]
    values: list[str]
    moves: list[tuple[int, Assign | Subscribe | Seek]]
    trims: dict[int, int]
    power_losses: list[int]

    @property
    def operations(self) -> int:
        """How many records were sent or polled, and how often latest was asked."""
        return len(self.sends) + len(self.records) + len(self.latests)

    def key(self, tp: Numbers, number: Numbers) -> Numbers:
        """Return one number for each (partition, value or offset), ascending in that order.

        Raises:
            HistoryError: They do not fit: an offset is too large.
        """
        step = max(len(self.values), self._largest_offset()) + 2
        if step * (len(self.partitions) + 1) >= NEVER:
            raise HistoryError(f"offsets above {NEVER // (len(self.partitions) + 1)} cannot be judged")
        return tp * step + number

    def _largest_offset(self) -> int:
        return max(int(each.max(initial=0)) for each in (self.sends.off, self.records.off, self.latests.off))


@dataclass(slots=True)
class LogHistoryBuilder:
    """Takes lines, in any number of pieces; `build` makes the columns of all of them."""

    _sends: list[dict[str, Numbers]] = field(default_factory=list)
    _polls: list[dict[str, Numbers]] = field(default_factory=list)
    _records: list[dict[str, Numbers]] = field(default_factory=list)
    _latests: list[dict[str, Numbers]] = field(default_factory=list)
    _moves: list[tuple[int, Assign | Subscribe | Seek]] = field(default_factory=list)
    _trims: list[Trim] = field(default_factory=list)
    _power_losses: list[int] = field(default_factory=list)
    _tps: defaultdict[str, int] = field(default_factory=lambda: defaultdict(count().__next__))
    _vals: defaultdict[str, int] = field(default_factory=lambda: defaultdict(count().__next__))
    _poll_count: int = 0

    def add(self, first_line: int, operations: list[Line]) -> None:
        """Take lines; those of registers are of another model.

        Raises:
            HistoryError: An operation that is not a log's, or that contradicts itself.
        """
        sorts: defaultdict[type, list[Any]] = defaultdict(list)
        lines: defaultdict[type, list[int]] = defaultdict(list)
        for number, each in enumerate(operations, first_line):
            kind = type(each)
            sorts[kind].append(each)
            lines[kind].append(number)
        self._add_sends(lines.pop(Send, []), sorts.pop(Send, []))
        self._add_polls(lines.pop(Poll, []), sorts.pop(Poll, []))
        self._add_latests(lines.pop(Latest, []), sorts.pop(Latest, []))
        for kind in (Assign, Subscribe, Seek):
            self._moves.extend(zip(lines.pop(kind, []), sorts.pop(kind, []), strict=True))
        lines.pop(Trim, None)
        self._trims.extend(sorts.pop(Trim, []))
        for kind, numbers in lines.items():
            if kind.__name__ != "Fault":
                raise HistoryError(f"line {numbers[0]}: `{kind.__struct_config__.tag}` is of the register models")
            self._power_losses.extend(each.inv for each in sorts[kind] if each.name.startswith("power"))

    def _add_sends(self, lines: list[int], sends: list[Send]) -> None:
        columns = self._common(lines, sends)
        columns["val"] = _column(map(self._vals.__getitem__, [each.val for each in sends]))
        columns["acks"] = _column(_ACKS[each.acks] for each in sends)
        columns["off"] = _known([each.off for each in sends])
        columns["epoch"] = _known([each.epoch for each in sends])
        columns["idem"] = _column(each.idem for each in sends)
        self._sends.append(columns)

    def _add_polls(self, lines: list[int], polls: list[Poll]) -> None:
        columns = self._common(lines, polls)
        columns["hw"] = _known([each.hw for each in polls])
        columns["final"] = _column(each.final for each in polls)
        columns["size"] = size = _column(len(each.recs) for each in polls)
        self._polls.append(columns)
        pairs = list(chain.from_iterable([each.recs for each in polls]))
        rows = np.repeat(np.arange(self._poll_count, self._poll_count + len(polls)), size)
        self._records.append(
            {
                "poll": rows,
                "tp": np.repeat(columns["tp"], size),
                "off": _column([off for off, _ in pairs]),
                "val": _column(map(self._vals.__getitem__, [val for _, val in pairs])),
            }
        )
        self._poll_count += len(polls)

    def _add_latests(self, lines: list[int], latests: list[Latest]) -> None:
        answered = [(line, each) for line, each in zip(lines, latests, strict=True) if each.type == "ok"]
        columns = self._common([line for line, _ in answered], [each for _, each in answered])
        columns["off"] = _known([each.off for _, each in answered])
        unknown = columns["line"][columns["off"] == UNKNOWN]
        if len(unknown):
            raise HistoryError(f"line {unknown[0]}: a `latest` that is ok has an `off`")
        del columns["type"]
        self._latests.append(columns)

    def _common(self, lines: list[int], operations: list[Any]) -> dict[str, Numbers]:
        columns = {
            "line": _column(lines),
            "type": _column(_TYPES[each.type] for each in operations),
            "proc": _column(each.proc for each in operations),
            "inv": _column(each.inv for each in operations),
            "ret": _column(NEVER if each.ret is None else each.ret for each in operations),
            "tp": _column(map(self._tps.__getitem__, [each.tp for each in operations])),
        }
        for flags, problem in (
            (columns["ret"] < columns["inv"], "ends before it began"),
            ((columns["type"] == OK) & (columns["ret"] == NEVER), "is ok and has no `ret`"),
        ):
            if flags.any():
                raise HistoryError(f"line {columns['line'][flags][0]}: the operation {problem}")
        return columns

    def build(self) -> LogHistory:
        """Return the history.

        Raises:
            HistoryError: It contradicts itself: a value was sent twice, or a process did two things at once.
        """
        trims: dict[int, int] = {}
        for each in self._trims:
            number = self._tps[each.tp]
            trims[number] = max(trims.get(number, 0), each.off)
        history = LogHistory(
            Sends(**_joined(self._sends, Sends)),
            Polls(**_joined(self._polls, Polls)),
            Records(**_joined(self._records, Records)),
            Latests(**_joined(self._latests, Latests)),
            list(self._tps),
            list(self._vals),
            self._moves,
            trims,
            sorted(self._power_losses),
        )
        _check_unique(history)
        _check_one_at_a_time(history)
        return history


def read_log_history(paths: Iterable[Path]) -> LogHistory:
    """Return the history of one or several files; lines are numbered through.

    Raises:
        HistoryError: It cannot be judged.
        OSError: A file cannot be read.
    """
    builder, before = LogHistoryBuilder(), 0
    for path in paths:
        last = 0
        for first, operations in read_lines(path):
            builder.add(before + first, operations)
            last = first + len(operations) - 1
        before += last
    return builder.build()


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
            f"lines {sends.line[first]} and {sends.line[second]}: value {history.values[sends.val[first]]!r} is sent"
            f" twice to {history.partitions[sends.tp[first]]}; only values that are unique in their partition can be"
            " told apart"
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
    # 16 bits are sorted by radix.
    order = np.argsort(proc.astype(np.int16) if int(proc.max()) < 2**15 else proc, kind="stable")
    order = order[proc[order] != UNKNOWN]
    one, two = order[:-1], order[1:]
    together = is_poll[one] & is_poll[two] & (inv[one] == inv[two]) & (ret[one] == ret[two])
    ends = np.where(ret[one] == NEVER, inv[one], ret[one])
    overlaps = np.flatnonzero((proc[one] == proc[two]) & (inv[two] < ends) & ~together)
    if len(overlaps):
        first, second = one[overlaps[0]], two[overlaps[0]]
        raise HistoryError(
            f"lines {first} and {second}: process {proc[first]} begins the second before the first has ended; what is"
            " in flight side by side is of several processes, and each process's lines are in the order of time"
        )


def _column(values: Iterable[Any]) -> Numbers:
    return np.array(list(values) if not isinstance(values, list) else values, dtype=np.int64)


def _known(values: list[int | None]) -> Numbers:
    return _column([UNKNOWN if each is None else each for each in values])


def _joined(pieces: list[dict[str, Numbers]], kind: type) -> dict[str, Numbers]:
    names: Iterable[str] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return {name: np.concatenate([_column([]), *(each[name] for each in pieces)]) for name in names}


__all__ = [
    "FAIL",
    "INFO",
    "LEADER_ACK",
    "NEVER",
    "NO_ACK",
    "OK",
    "QUORUM_ACK",
    "UNKNOWN",
    "Flags",
    "LogHistory",
    "LogHistoryBuilder",
    "Numbers",
    "read_log_history",
]
