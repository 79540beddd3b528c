"""Makes the columns of a log history from its lines, in any number of pieces.

This is where a large history spends its time: one pass per column over a chunk of operations, and no more than a few
dictionary look-ups per record.
"""

import gc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, compress, count, repeat
from operator import is_, itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from raftka.check.errors import HistoryError
from raftka.check.history_file import read_lines
from raftka.check.log.columns import (
    FAIL,
    INFO,
    LEADER_ACK,
    NEVER,
    NO_ACK,
    OK,
    QUORUM_ACK,
    UNKNOWN,
    UNRECORDED,
    Latests,
    LogHistory,
    Numbers,
    Polls,
    Records,
    Sends,
)
from raftka.check.log.contradictions import check_contradictions
from raftka.check.operations import Assign, Compact, Fault, Latest, Line, Poll, Seek, Send, Subscribe, Trim, Txn
from raftka.check.places import Places
from raftka.check.transactions.marks import TransactionMarks
from raftka.check.value_numbers import ValueNumbers

_TYPES = {"ok": OK, "fail": FAIL, "info": INFO}
_ACKS = {"0": NO_ACK, "1": LEADER_ACK, "all": QUORUM_ACK}
_OFFSET, _VALUE = itemgetter(0), itemgetter(1)


@dataclass(slots=True)
class LogHistoryBuilder:
    """Takes lines, in any number of pieces; `build` makes the columns of all of them.

    Attributes:
        places: Which line of which file a line is, for what is said of it.
    """

    places: Places = field(default_factory=Places)
    _sends: list[dict[str, Numbers]] = field(default_factory=list)
    _polls: list[dict[str, Numbers]] = field(default_factory=list)
    _records: list[dict[str, Numbers]] = field(default_factory=list)
    _latests: list[dict[str, Numbers]] = field(default_factory=list)
    _moves: list[tuple[int, Assign | Subscribe | Seek]] = field(default_factory=list)
    _trims: list[tuple[int, Trim]] = field(default_factory=list)
    _compactions: list[Compact] = field(default_factory=list)
    _power_losses: list[int] = field(default_factory=list)
    _tps: defaultdict[str, int] = field(default_factory=lambda: defaultdict(count().__next__))
    _values: ValueNumbers = field(default_factory=ValueNumbers)
    _marks: TransactionMarks = field(default_factory=TransactionMarks)
    _poll_count: int = 0

    def add(self, first_line: int, operations: list[Line]) -> None:
        """Take lines; those of registers are of another model.

        Raises:
            HistoryError: An operation that is not a log's, or that contradicts itself.
        """
        kinds = list(map(type, operations))
        sorts: dict[type, list[Any]] = {}
        lines: dict[type, list[int]] = {}
        for kind in set(kinds):
            flags = list(map(is_, kinds, repeat(kind)))
            sorts[kind] = list(compress(operations, flags))
            lines[kind] = list(compress(count(first_line), flags))
        self._add_sends(lines.pop(Send, []), sorts.pop(Send, []))
        self._add_polls(lines.pop(Poll, []), sorts.pop(Poll, []))
        self._add_latests(lines.pop(Latest, []), sorts.pop(Latest, []))
        for kind in (Assign, Subscribe, Seek):
            self._moves.extend(zip(lines.pop(kind, []), sorts.pop(kind, []), strict=True))
        trims = zip(lines.pop(Trim, []), sorts.pop(Trim, []), strict=True)
        self._trims.extend((line, each) for line, each in trims if each.type != "fail")
        lines.pop(Compact, None)
        self._compactions.extend(sorts.pop(Compact, []))
        self._power_losses.extend(each.inv for each in sorts.pop(Fault, []) if each.name.startswith("power"))
        self._marks.add_ends(self.places, lines.pop(Txn, []), sorts.pop(Txn, []))
        if sorts:
            kind = min(sorts, key=lambda kind: lines[kind][0])
            raise HistoryError(
                f"{self.places.name(lines[kind][0])}: `{sorts[kind][0].__struct_config__.tag}` is of a register:"
                " --model register or --model cas"
            )

    def _add_sends(self, lines: list[int], sends: list[Send]) -> None:
        columns = self._common(lines, sends)
        columns["acks"] = _column([_ACKS[each.acks] for each in sends])
        columns["off"] = _column_or(UNKNOWN, [each.off for each in sends])
        columns["epoch"] = _column_or(UNKNOWN, [each.epoch for each in sends])
        columns["idem"] = _column([each.idem for each in sends])
        columns["val"] = self._values.of_sends(columns["tp"], columns["off"], [each.val for each in sends])
        columns["key"] = self._values.of_keys([each.key for each in sends])
        columns["tombstone"] = _column([each.tombstone for each in sends])
        keyless = columns["line"][(columns["tombstone"] == 1) & (columns["key"] == UNKNOWN)]
        if len(keyless):
            raise HistoryError(f"{self.places.name(keyless[0])}: a `tombstone` has a `key`, which it deletes")
        self._sends.append(columns)
        self._marks.add_sends(lines, sends)

    def _add_polls(self, lines: list[int], polls: list[Poll]) -> None:
        columns = self._common(lines, polls)
        columns["hw"] = _column_or(UNKNOWN, [each.hw for each in polls])
        columns["final"] = _column([each.final for each in polls])
        columns["epoch"] = _column_or(UNRECORDED, [each.epoch for each in polls])
        columns["size"] = size = _column([len(each.recs) for each in polls])
        columns["begin"] = np.zeros(len(polls), np.int64)
        self._polls.append(columns)
        self._marks.add_polls(lines, polls)
        pairs = list(chain.from_iterable([each.recs for each in polls]))
        offsets = np.fromiter(map(_OFFSET, pairs), np.int64, len(pairs))
        self._records.append(
            {
                "poll": np.repeat(np.arange(self._poll_count, self._poll_count + len(polls)), size),
                "tp": np.repeat(columns["tp"], size),
                "off": offsets,
                "val": self._polled(columns["tp"], size, offsets, list(map(_VALUE, pairs))),
            }
        )
        self._poll_count += len(polls)

    def _add_latests(self, lines: list[int], latests: list[Latest]) -> None:
        answered = [(line, each) for line, each in zip(lines, latests, strict=True) if each.type == "ok"]
        columns = self._common([line for line, _ in answered], [each for _, each in answered])
        columns["off"] = _column_or(UNKNOWN, [each.off for _, each in answered])
        unknown = columns["line"][columns["off"] == UNKNOWN]
        if len(unknown):
            raise HistoryError(f"{self.places.name(unknown[0])}: a `latest` that is ok has an `off`")
        del columns["type"]
        self._latests.append(columns)

    def _common(self, lines: list[int], operations: list[Any]) -> dict[str, Numbers]:
        columns = {
            "line": _column(lines),
            "type": _column([_TYPES[each.type] for each in operations]),
            "proc": _column([each.proc for each in operations]),
            "inv": _column([each.inv for each in operations]),
            "ret": _column_or(NEVER, [each.ret for each in operations]),
            "tp": _column([self._tps[each.tp] for each in operations]),
        }
        for flags, problem in (
            (columns["ret"] < columns["inv"], "ends before it began"),
            ((columns["type"] == OK) & (columns["ret"] == NEVER), "is ok and has no `ret`"),
        ):
            if flags.any():
                raise HistoryError(f"{self.places.name(columns['line'][flags][0])}: the operation {problem}")
        return columns

    def _polled(self, tps: Numbers, sizes: Numbers, offsets: Numbers, values: list[str]) -> Numbers:
        numbers = np.empty(len(values), np.int64)
        end = 0
        for tp, size in zip(tps.tolist(), sizes.tolist(), strict=True):
            begin, end = end, end + size
            numbers[begin:end] = self._values.of_poll(tp, offsets[begin:end], values[begin:end])
        return numbers

    @property
    def partitions(self) -> list[str]:
        """The partitions so far, without those that only `trim` and `compact` name."""
        return list(self._tps)

    @property
    def trims(self) -> list[tuple[int, Trim]]:
        """The trims that may have happened, with their lines."""
        return self._trims

    @property
    def compactions(self) -> list[Compact]:
        """What lines say of compacted partitions."""
        return self._compactions

    def build(self) -> LogHistory:
        """Return the history.

        Raises:
            HistoryError: It contradicts itself: a value was sent twice, or a process did two things at once.
        """
        history = self.build_part()
        check_contradictions(history)
        return history

    def build_part(self) -> LogHistory:
        """Return what there is as a history that may contradict itself; of partitions it knows those that it has."""
        trims, deletions = trimmed(self._trims, self._tps)
        compacted = retentions(self._compactions, self._tps)
        values, place = self._values.settle()
        sends, records = Sends(**_joined(self._sends, Sends)), Records(**_joined(self._records, Records))
        if place is not None:
            sends = replace(sends, val=place[sends.val], key=renumbered(place, sends.key))
            records = replace(records, val=place[records.val])
        return LogHistory(
            sends,
            Polls(**_joined(self._polls, Polls)),
            records,
            Latests(**_joined(self._latests, Latests)),
            list(self._tps),
            values,
            self._moves,
            trims,
            deletions,
            sorted(self._power_losses),
            self.places,
            self._marks.build(),
            compacted,
        )


def trimmed(trims: list[tuple[int, Trim]], numbers: Mapping[str, int]) -> tuple[dict[int, int], list[tuple[int, Trim]]]:
    """Return (by partition the offset below which nothing is missed, the trims that were answered)."""
    ends: dict[int, int] = {}
    for _, each in trims:
        number = numbers[each.tp]
        ends[number] = max(ends.get(number, 0), each.off)
    return ends, [(line, each) for line, each in trims if each.type == "ok" and each.ret is not None]


def retentions(compactions: Iterable[Compact], numbers: Mapping[str, int]) -> dict[int, int]:
    """Return by compacted partition for how many nanoseconds a tombstone stays; of several lines the least counts."""
    found: dict[int, int] = {}
    for each in compactions:
        number = numbers[each.tp]
        retention = each.delete_retention_ms * 1_000_000
        found[number] = min(found.get(number, retention), retention)
    return found


def renumbered(numbers: Numbers, keys: Numbers) -> Numbers:
    """Return keys by their new numbers; UNKNOWN stays what it is."""
    return np.where(keys == UNKNOWN, UNKNOWN, numbers[np.maximum(keys, 0)]) if len(numbers) else keys


def read_log_history(paths: Iterable[Path], note: Callable[[int], None] | None = None) -> LogHistory:
    """Return the history of one or several files, in the order given.

    Args:
        paths: The files.
        note: Called with numbers of bytes, as they are read.

    Raises:
        HistoryError: It cannot be judged.
        OSError: A file cannot be read.
    """
    builder, before = LogHistoryBuilder(), 0
    with collector_paused():
        for path in paths:
            builder.places.begin(str(path), before)
            last = 0
            for first, operations in read_lines(path, note=note):
                builder.add(before + first, operations)
                last = first + len(operations) - 1
            before += last
    return builder.build()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Operations are in no cycles, and looking for some among millions takes a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _column(values: list[int]) -> Numbers:
    return np.fromiter(values, np.int64, len(values))


def _column_or(default: int, values: list[int | None]) -> Numbers:
    try:
        return np.fromiter(values, np.int64, len(values))
    except TypeError:
        # Some are None.
        return _column([default if each is None else each for each in values])


def _joined(pieces: list[dict[str, Numbers]], kind: type) -> dict[str, Numbers]:
    names: Iterable[str] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return {name: np.concatenate([_column([]), *(each[name] for each in pieces)]) for name in names}
