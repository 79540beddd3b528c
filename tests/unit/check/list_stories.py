"""Small histories of lists: each anomaly in its smallest one, and beside it the closest one that is legal."""

from typing import Any

import msgspec

from raftka.check.errors import HistoryError
from raftka.check.lists.history import ListHistory
from raftka.check.lists.model import check_lists
from raftka.check.operations import Line
from raftka.check.verdict import Verdict

_decoder = msgspec.json.Decoder(Line)

A, B, C = (0, "a"), (1, "b"), (2, "c")


class Lists:
    """A history of lists; each transaction is of a process of its own, and time goes on by itself."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def txn(self, *ops: list[Any], **fields: Any) -> "Lists":
        at = 10 * len(self.lines)
        line = {"f": "txn", "type": "ok", "proc": len(self.lines), "inv": at + 1, "ret": at + 9, "ops": list(ops)}
        self.lines.append(line | fields)
        return self

    def final(self, *ops: list[Any]) -> "Lists":
        return self.txn(*ops, final=True)

    def history(self) -> ListHistory:
        history = ListHistory()
        for number, line in enumerate(self.lines, 1):
            history.take(number, _decoder.decode(msgspec.json.encode(line)))
        return history

    def check(self) -> Verdict:
        return check_lists(self.history())

    def found(self) -> set[str]:
        return {finding.name for finding in self.check().findings}

    def unjudged(self) -> str:
        try:
            self.check()
        except HistoryError as error:
            return str(error)
        return ""


def add(key: str, val: str, *off: int | None) -> list[Any]:
    return ["append", key, val, *off]


def see(key: str, *recs: tuple[int, str]) -> list[Any]:
    return ["read", key, [list(each) for each in recs]]


def crossed(first: dict[str, Any], other: tuple[int, str] | None) -> Lists:
    """Two transactions side by side, of which the first has read the second's, and the second what is told."""
    reads = [see("x", other)] if other else []
    lists = Lists().txn(add("x", "a", 0), see("y", (0, "b")), **{"asked": 11, "inv": 1, "ret": 20} | first)
    lists.txn(add("y", "b", 0), *reads, inv=1, ret=20, asked=11)
    return lists.txn(see("x", A), see("y", (0, "b")), final=True, inv=30, ret=40)


LIST_PAIRS: list[tuple[set[str], Lists, Lists]] = [
    (
        {"phantom"},
        Lists().txn(add("x", "a", 0)).final(see("x", A, B)),
        Lists().txn(add("x", "a", 0), add("x", "b", 1)).final(see("x", A, B)),
    ),
    (
        {"aborted-read"},
        Lists().txn(add("x", "a", 0), type="fail").final(see("x", A)),
        Lists().txn(add("x", "a", 0), type="info").final(see("x", A)),
    ),
    (
        {"precommitted-read"},
        Lists().txn(add("x", "a", 0), see("x", A)).final(see("x", A)),
        Lists().txn(add("x", "a", 0), see("x")).final(see("x", A)),
    ),
    (
        {"precommitted-read"},
        Lists().txn(see("x", A), inv=1, ret=4).txn(add("x", "a", 0), inv=1, ret=9, asked=5).final(see("x", A)),
        Lists().txn(see("x", A), inv=1, ret=5).txn(add("x", "a", 0), inv=1, ret=9, asked=5).final(see("x", A)),
    ),
    (
        {"inconsistent-offsets", "duplicate"},
        Lists().txn(add("x", "a"), type="info").txn(add("x", "b", 0)).txn(see("x", A)).final(see("x", A, B)),
        Lists().txn(add("x", "a"), type="info").txn(add("x", "b", 1)).txn(see("x", A)).final(see("x", A, B)),
    ),
    (
        {"duplicate"},
        Lists().txn(add("x", "a", 0)).final(see("x", A, (1, "a"))),
        Lists().txn(add("x", "a", 0)).final(see("x", A), see("x", A)),
    ),
    (
        {"int-nonmonotonic-poll"},
        Lists().txn(add("x", "a", 0)).txn(add("x", "b", 1)).final(see("x", B, A)),
        Lists().txn(add("x", "a", 0)).txn(add("x", "b", 1)).final(see("x", A), see("x", B)),
    ),
    (
        {"int-poll-skip"},
        Lists().txn(add("x", "a", 0)).txn(add("x", "b", 1)).txn(add("x", "c", 2)).final(see("x", A, C)),
        Lists().txn(add("x", "a", 0)).txn(add("x", "b", 1), type="info").txn(add("x", "c", 2)).final(see("x", A, C)),
    ),
    (
        {"torn-read"},
        Lists().txn(add("x", "a", 0), add("y", "b", 1)).final(see("x", A), see("y")),
        Lists().txn(add("x", "a", 0), add("y", "b", 1)).txn(see("x", A), see("y")).final(see("x", A), see("y", B)),
    ),
    (
        {"torn-read"},
        Lists().txn(add("x", "a", 0), add("y", "b", 1), type="info").final(see("x", A), see("y")),
        Lists().txn(add("x", "a", 0), add("y", "b", 1), type="info").final(see("x"), see("y")),
    ),
    (
        {"lost-write"},
        Lists().txn(add("x", "a", 0)).final(see("x")),
        Lists().txn(add("x", "a", 0), type="info").final(see("x")),
    ),
    ({"circular-read"}, crossed({}, A), crossed({}, None)),
    (
        {"circular-read"},
        crossed({"type": "info"}, A),
        # What was aborted depends on nobody; what it has read was there.
        crossed({}, None),
    ),
]
