"""Writes down what simulated clients see, as docs/history-format.md says."""

from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from raftka.check.levels import Level
from raftka.check.log.builder import LogHistoryBuilder
from raftka.check.log.model import check_log
from raftka.check.operations import Line
from raftka.check.register_history import register_history
from raftka.check.register_model import check_register
from raftka.check.verdict import Verdict
from tests.simulation.campaign.plan import OperationId

_OF_REGISTERS = frozenset({"read", "write", "cas"})

_decoder = msgspec.json.Decoder(list[Line])


class Recorder:
    """The history of one run, in the order in which operations ended.

    Args:
        now: The instant.
        without: Operations that are left out.
        has_keys: Records have keys, each its own; a compacted topic keeps them all.
    """

    def __init__(
        self, now: Callable[[], float], without: frozenset[OperationId] = frozenset(), *, has_keys: bool = False
    ) -> None:
        self._now = now
        self.has_keys = has_keys
        self._without = without
        self._asked: Counter[int] = Counter()
        self.lines: list[dict[str, Any]] = []
        # Of each value that was sent.
        self.timestamps: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        # What no history tells: answers that are allowed, and harmful.
        self.wrong: list[str] = []
        self._open: dict[int, dict[str, Any]] = {}
        self._processes = count()

    def process(self) -> int:
        """Return a new process's number."""
        return next(self._processes)

    def wants(self, proc: int) -> bool:
        """Whether the process is to begin its next operation, or leave it out."""
        self._asked[proc] += 1
        return (proc, self._asked[proc]) not in self._without

    @property
    def operations(self) -> list[OperationId]:
        """All operations that were begun."""
        each = ((proc, number) for proc, asked in self._asked.items() for number in range(1, asked + 1))
        return [operation for operation in each if operation not in self._without]

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

    def log_verdict(self, level: Level | None, flush_seconds: float) -> Verdict:
        """Judge what was sent and read; `level` takes the place of acks=all."""
        builder = LogHistoryBuilder()
        builder.add(1, self._decoded(of_registers=False))
        return check_log(builder.build(), level or Level.QUORUM_ACK, flush_seconds=flush_seconds)

    def cas_verdict(self) -> Verdict:
        """Judge what was written, read, compared and set."""
        return check_register(register_history(self._decoded(of_registers=True), has_cas=True), "cas")

    def _decoded(self, *, of_registers: bool) -> list[Line]:
        lines = [line for line in self.whole() if (line["f"] in _OF_REGISTERS) is of_registers]
        return _decoder.decode(msgspec.json.encode(lines))
