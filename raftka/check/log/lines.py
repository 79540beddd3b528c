"""The operations of a log history as the lines they were read from, for the proofs of a verdict."""

from bisect import bisect_left
from typing import Any

import msgspec
import numpy as np

from raftka.check.log.columns import LEADER_ACK, NEVER, OK, QUORUM_ACK, UNKNOWN, UNRECORDED, LogHistory, Numbers

# The last one is UNSETTLED.
_TYPES = ("ok", "fail", "info", "ok")
_ACKS = {QUORUM_ACK: "all", LEADER_ACK: "1"}


def send_line(history: LogHistory, row: int) -> dict[str, Any]:
    """Return one send."""
    sends = history.sends
    return history.places.of(sends.line[row]) | {
        "f": "send",
        "type": _TYPES[sends.type[row]],
        "proc": int(sends.proc[row]),
        "inv": int(sends.inv[row]),
        "ret": _time(sends.ret[row]),
        "tp": history.partitions[sends.tp[row]],
        "acks": _ACKS.get(int(sends.acks[row]), "0"),
        "idem": bool(sends.idem[row]),
        "val": history.values[sends.val[row]],
        "off": _known(sends.off[row]),
        "epoch": _known(sends.epoch[row]),
        **({} if sends.key[row] == UNKNOWN else {"key": history.values[sends.key[row]]}),
        **({"tombstone": True} if sends.tombstone[row] else {}),
        **_of_send(history, int(sends.line[row])),
    }


def poll_line(history: LogHistory, poll: int, *records: int) -> dict[str, Any]:
    """Return one poll with some of its records, given as rows of `Records`."""
    polls, rows = history.polls, history.records
    return history.places.of(polls.line[poll]) | {
        "f": "poll",
        "type": "ok" if polls.type[poll] == OK else "info",
        "proc": int(polls.proc[poll]),
        "inv": int(polls.inv[poll]),
        "ret": _time(polls.ret[poll]),
        "tp": history.partitions[polls.tp[poll]],
        "recs": [[int(rows.off[record]), history.values[rows.val[record]]] for record in records],
        "hw": _known(polls.hw[poll]),
        "final": bool(polls.final[poll]),
        **({} if polls.epoch[poll] == UNRECORDED else {"epoch": int(polls.epoch[poll])}),
        **_of_poll(history, int(polls.line[poll])),
    }


def record_line(history: LogHistory, record: int) -> dict[str, Any]:
    """Return the poll of one record, with this record only."""
    return poll_line(history, int(history.records.poll[record]), record)


def record_order(history: LogHistory, record: int) -> tuple[int, int]:
    """Return what orders polled records as they were read: the line, and which of its records."""
    poll = int(history.records.poll[record])
    return history.polls.line[poll], history.polls.begin[poll] + record - history.polls.first[poll]


def latest_line(history: LogHistory, row: int) -> dict[str, Any]:
    """Return one ListOffsets latest."""
    latests = history.latests
    return history.places.of(latests.line[row]) | {
        "f": "latest",
        "type": "ok",
        "proc": int(latests.proc[row]),
        "inv": int(latests.inv[row]),
        "ret": _time(latests.ret[row]),
        "tp": history.partitions[latests.tp[row]],
        "off": int(latests.off[row]),
    }


def seek_line(history: LogHistory, line: int) -> dict[str, Any]:
    """Return the seek of a line."""
    fields: dict[str, Any] = next(msgspec.to_builtins(move) for its_line, move in history.moves if its_line == line)
    return history.places.of(line) | fields


def trim_line(history: LogHistory, line: int) -> dict[str, Any]:
    """Return the answered trim of a line."""
    fields: dict[str, Any] = next(msgspec.to_builtins(trim) for its_line, trim in history.deletions if its_line == line)
    return history.places.of(line) | fields


def _of_send(history: LogHistory, line: int) -> dict[str, Any]:
    """Return what a send says of transactions."""
    marks = history.transactions
    fields: dict[str, Any] = {}
    at = _row(marks.send_line, line)
    if at is not None:
        fields["txn"] = marks.names[marks.send_txn[at]]
    for given in marks.inputs[bisect_left(marks.inputs, line, key=lambda each: each.line) :][:1]:
        if given.line == line:
            fields |= {"of": [given.tp, given.off]} | ({"group": given.group} if given.group else {})
    return fields


def _of_poll(history: LogHistory, line: int) -> dict[str, Any]:
    """Return what a poll says of transactions."""
    marks = history.transactions
    at = _row(marks.poll_line, line)
    if at is None:
        return {}
    fields: dict[str, Any] = {"iso": "read_committed"} if marks.poll_iso[at] else {}
    if marks.poll_lso[at] != UNKNOWN:
        fields["lso"] = int(marks.poll_lso[at])
    if marks.poll_txn[at] != UNKNOWN:
        fields["txn"] = marks.names[marks.poll_txn[at]]
    return fields


def _row(lines: Numbers, line: int) -> int | None:
    at = int(np.searchsorted(lines, line))
    return at if at < len(lines) and lines[at] == line else None


def _time(number: int) -> int | None:
    return None if number == NEVER else int(number)


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else int(number)
