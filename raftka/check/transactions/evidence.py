"""The transactions of a history as the lines they were read from, for the proofs of a verdict."""

from typing import Any

import msgspec

from raftka.check.log.columns import UNKNOWN, LogHistory


def end_line(history: LogHistory, row: int) -> dict[str, Any]:
    """Return one `txn` line, given by its row, without the fields that it leaves out."""
    line, end = history.transactions.ends[row]
    fields: dict[str, Any] = msgspec.to_builtins(end)
    return history.places.of(line) | {name: each for name, each in fields.items() if each not in (None, "", {}, False)}


def end_lines(history: LogHistory, *rows: int) -> list[dict[str, Any]]:
    """Return the `txn` lines at these rows; UNKNOWN stands for none."""
    return [end_line(history, row) for row in rows if row != UNKNOWN]


def late_words(history: LogHistory, row: int) -> str:
    """Return what an earlier end of the same producer may have done; nothing where there is none."""
    if row == UNKNOWN:
        return ""
    _, end = history.transactions.ends[row]
    return (
        f"; its producer had sent the {end.do} of transaction {end.txn!r} more than once (EndTxn {end.version}), and a"
        " late copy may have ended this one"
    )
