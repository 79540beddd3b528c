"""One broker that notes when each producer's call got on: BEGIN begins to note, END ends and writes what it has.

A program of its own, like `profiled_process`: the broker itself has no switch for it. A call's moments, in seconds of
the process's own clock:

    received   the batcher has it
    placed     it has its index; until then it waits for the round before it (`op_lock`) and for memory
    written    the leader's write has returned
    sent       the round is on the links of the followers, which happens before anything is answered
    answered   its level is reached: at once at acks=1; for acks=all the followers' fsyncs and answers are in between
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.profiled_process import BEGIN, END
from model.ids import ConsistencyLevel, Term
from raft import replicate_batcher
from raft.replicate_batcher import ReplicateBatcher
from raft.replicate_entries_stm import ReplicateEntriesStm
from raft.replicate_item import NewEntry, ReplicateItem
from raftka.broker.application import run_broker
from raftka.config_descriptor import read_config

MOMENTS = ("received", "placed", "written", "sent", "answered")
_now = time.perf_counter


class _Notes:
    """What is noted while it `is_on`: the level and the moments of each call that ended well."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls: list[tuple[str, list[float]]] = []
        # When the newest round of a group was written.
        self.written: dict[object, float] = {}

    def begin(self) -> None:
        self.calls.clear()
        self.is_on = True

    def end(self, path: Path) -> None:
        self.is_on = False
        part = path.with_suffix(".part")
        part.write_text(json.dumps(self.calls))
        part.rename(path)


class _TimedItem(ReplicateItem):
    __slots__ = ("moments",)

    def __init__(self, entries: Sequence[NewEntry], level: ConsistencyLevel, expected_term: Term | None) -> None:
        self.moments = [_now()]
        super().__init__(entries, level, expected_term)

    def succeed(self) -> None:
        if _notes.is_on and not self.is_done and self.is_data and len(self.moments) == len(MOMENTS) - 1:
            _notes.calls.append((self.level.name, [*self.moments, _now()]))
        super().succeed()


_notes = _Notes()


def _plant() -> None:
    place, resolve, dispatch = ReplicateBatcher._place, ReplicateBatcher._resolve, ReplicateEntriesStm._dispatch

    def timed_place(self: ReplicateBatcher, items: Sequence[ReplicateItem], term: Term) -> Any:
        placed = place(self, items, term)
        now = _now()
        for item in placed.items:
            if isinstance(item, _TimedItem):
                item.moments.append(now)
        return placed

    def timed_dispatch(self: ReplicateEntriesStm) -> None:
        _notes.written[self._context.group] = _now()
        dispatch(self)

    def timed_resolve(self: ReplicateBatcher, items: Sequence[ReplicateItem]) -> None:
        now = _now()
        for item in items:
            # A duplicate is in no round: it has fewer moments, and is left out.
            if isinstance(item, _TimedItem) and self._context.group in _notes.written:
                item.moments += [_notes.written[self._context.group], now]
        resolve(self, items)

    replicate_batcher.ReplicateItem = _TimedItem  # type: ignore[misc]
    ReplicateBatcher._place = timed_place  # type: ignore[method-assign]
    ReplicateBatcher._resolve = timed_resolve  # type: ignore[method-assign]
    ReplicateEntriesStm._dispatch = timed_dispatch  # type: ignore[method-assign]


def main() -> int:
    """Run the broker until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.timed_process")
    parser.add_argument("--node-id", type=int, required=True)
    parser.add_argument("--config-fd", type=int, required=True)
    parser.add_argument("--stats", required=True, type=Path, help="the file that END writes")
    arguments = parser.parse_args()
    _plant()
    signal.signal(BEGIN, lambda *_: _notes.begin())
    signal.signal(END, lambda *_: _notes.end(arguments.stats))
    return asyncio.run(run_broker(read_config(arguments.config_fd, arguments.node_id)))


if __name__ == "__main__":
    sys.exit(main())
