"""Writes down what simulated clients see, as docs/history-format.md says."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from raftka.check.levels import Level
from raftka.check.log_columns import LogHistoryBuilder
from raftka.check.log_model import check_log
from raftka.check.operations import Line
from raftka.check.verdict import Verdict

_decoder = msgspec.json.Decoder(list[Line])


class Recorder:
    """The history of one run, in the order in which operations ended."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.lines: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self._open: dict[int, dict[str, Any]] = {}
        self._processes = count()

    def process(self) -> int:
        """Return a new process's number."""
        return next(self._processes)

    @property
    def now_ns(self) -> int:
        """The instant."""
        return round(self._now() * 1e9)

    def begin(self, f: str, proc: int, **fields: Any) -> dict[str, Any]:
        """Begin an operation; its line is written when it ends, or at the end of the run."""
        assert proc not in self._open
        line = self._open[proc] = {"f": f, "type": "info", "proc": proc, "inv": self.now_ns, "ret": None, **fields}
        return line

    def end(self, line: dict[str, Any], outcome: str, **fields: Any) -> None:
        """End it: with ok, fail, or info where nobody knows."""
        del self._open[line["proc"]]
        self.lines.append(line | {"type": outcome, "ret": self.now_ns, **fields})
        self.counts[f"{line['f']} {outcome}"] += 1

    def note(self, f: str, **fields: Any) -> None:
        """Write down what has no duration."""
        self.lines.append({"f": f, "inv": self.now_ns, **fields})

    def whole(self) -> list[dict[str, Any]]:
        """Return all lines; what has not ended is unknown for ever."""
        return [*self.lines, *self._open.values()]

    def verdict(self, flush_seconds: float) -> Verdict:
        """Judge it."""
        builder = LogHistoryBuilder()
        builder.add(1, _decoder.decode(msgspec.json.encode(self.whole())))
        return check_log(builder.build(), Level.QUORUM_ACK, flush_seconds=flush_seconds)
