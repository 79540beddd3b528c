"""Writes a history as it happens (docs/history-format.md), and keeps the figures that a summary and a report need.

Lines go to the file in the order in which operations end; what has not ended at the end is unknown for ever. Memory is
bounded by what is under way and by one set of counters per second.
"""

import threading
import time
from collections import Counter, defaultdict
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from raftka.chaos.latencies import LatencyHistogram

_BUFFER_BYTES = 1024 * 1024
# How long a partition may acknowledge nothing before that is called an outage.
OUTAGE_SECONDS = 1.0


def now_ns() -> int:
    """Return the instant: the one clock of a run."""
    return time.monotonic_ns()


class Second:
    """What was seen in one second of a run."""

    def __init__(self) -> None:
        self.acked = 0
        self.latencies = LatencyHistogram()
        self.high_watermarks: dict[str, int] = {}


class History:
    """One run's history. A context manager; to be used from any thread.

    What ends after it was closed stays unknown: clients whose end nobody waited for may go on for a while.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.began_ns = now_ns()
        # To set brokers' log lines beside operations: what the wall clock said at `began_ns`, in nanoseconds.
        self.began_wall_ns = time.time_ns()
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.faults: list[dict[str, Any]] = []
        self.seconds: dict[int, Second] = defaultdict(Second)
        self.latencies = LatencyHistogram()
        self.outages: list[tuple[str, int, int]] = []
        self._last_ack: dict[str, int] = {}
        self._open: dict[int, dict[str, Any]] = {}
        self._processes = count()
        self._lock = threading.Lock()
        self._encoder = msgspec.json.Encoder()
        self._file = path.open("wb", buffering=_BUFFER_BYTES)

    def __enter__(self) -> "History":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            for line in self._open.values():
                self._write(line)
            self._open.clear()
            self._file.close()

    def process(self) -> int:
        """Return a new process's number."""
        with self._lock:
            return next(self._processes)

    def begin(self, f: str, proc: int, **fields: Any) -> dict[str, Any]:
        """Begin an operation; a process has one at a time."""
        line = {"f": f, "type": "info", "proc": proc, "inv": now_ns(), "ret": None, **fields}
        with self._lock:
            assert proc not in self._open
            self._open[proc] = line
        return line

    def end(self, line: dict[str, Any], outcome: str, **fields: Any) -> None:
        """End it: with ok, fail, or info where nobody knows."""
        ret = now_ns()
        with self._lock:
            if self._file.closed:
                return
            line |= {"type": outcome, "ret": ret, **fields}
            del self._open[line["proc"]]
            self._note_end(line)
            self._write(line)

    def note(self, f: str, **fields: Any) -> None:
        """Write down what has no duration."""
        with self._lock:
            self._write({"f": f, "inv": now_ns(), **fields})

    def polled(self, proc: int, inv: int, polls: list[tuple[str, list[tuple[int, str]]]], *, final: bool) -> None:
        """Write down one poll of several partitions: a line for each, which begin and end together."""
        ret = now_ns()
        line = {"f": "poll", "type": "ok", "proc": proc, "inv": inv, "ret": ret, "hw": None, "final": final}
        with self._lock:
            for tp, records in polls if not self._file.closed else ():
                self.counts["poll ok"] += 1
                self.counts["polled"] += len(records)
                self._write(line | {"tp": tp, "recs": records})

    def fault(self, name: str, **fields: Any) -> None:
        """Write down what was done to the cluster."""
        line = {"f": "fault", "name": name, "inv": now_ns(), **fields}
        with self._lock:
            self.faults.append(line)
            self._write(line)

    def _note_end(self, line: dict[str, Any]) -> None:
        f, outcome = line["f"], line["type"]
        self.counts[f"{f} {outcome}"] += 1
        if line.get("err"):
            self.errors[f"{f}: {line['err']}"] += 1
        if f == "poll":
            self.counts["polled"] += len(line["recs"])
            if line["hw"] is not None:
                self.seconds[self.second(line["ret"])].high_watermarks[line["tp"]] = line["hw"]
        elif outcome == "ok" and f in ("send", "cas", "read", "txn") and not line.get("final"):
            self._note_ack(line)

    def _note_ack(self, line: dict[str, Any]) -> None:
        # Transactions have many keys: it is an outage of all of them if none is committed.
        where, ret = line.get("tp") or line.get("key") or "transactions", line["ret"]
        second = self.seconds[self.second(ret)]
        second.acked += 1
        second.latencies.add(ret - line["inv"])
        self.latencies.add(ret - line["inv"])
        before = self._last_ack.get(where, ret)
        # Names of topics are used now and then only: a gap between two uses is no outage.
        if line["f"] in ("send", "txn") and ret - before > OUTAGE_SECONDS * 1e9:
            self.outages.append((where, before, ret))
        self._last_ack[where] = ret

    def _write(self, line: dict[str, Any]) -> None:
        if not self._file.closed:
            self._file.write(self._encoder.encode(line) + b"\n")

    def second(self, instant_ns: int) -> int:
        """Return in which second of the run an instant lies."""
        return (instant_ns - self.began_ns) // 1_000_000_000

    def acked_between(self, first_ns: int, last_ns: int) -> int:
        """Return how much was acknowledged between two instants, by whole seconds."""
        first, last = self.second(first_ns), self.second(last_ns)
        with self._lock:
            return sum(each.acked for at, each in self.seconds.items() if first <= at <= last)

    @property
    def last_fault_end_ns(self) -> int:
        """When the last fault was taken back, not counting the last healing of what is well already."""
        ends = [fault["inv"] for fault in self.faults if fault["name"] != "healed"]
        return max(ends, default=self.began_ns)

    @property
    def acked(self) -> int:
        """How much was acknowledged so far."""
        return self.latencies.count
