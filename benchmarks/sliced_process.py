"""One broker that keeps the longest slices of its event loop: BEGIN begins to keep, END ends and writes them.

A program of its own, like `profiled_process`: the broker itself has no switch for it. A slice is one callback of the
loop, from its start to its return. Its length is the CPU time of the thread: on a machine with few cores the time on
the clock has the slices of other processes in it, too. Slices of the compactor's task, and of a log's writes while one
of them is a swap, are also kept apart.
"""

import argparse
import asyncio
import functools
import gc
import json
import signal
import sys
import time
from pathlib import Path
from types import CoroutineType
from typing import Any, TypedDict

from benchmarks.profiled_process import BEGIN, END
from raftka.broker.application import run_broker
from raftka.config_descriptor import read_config

_KEPT = 10
# Of the names of the compactor's task and of a log's lane of writes, as `runtime.gate.Gate` gives them; and what the
# lane runs then.
_COMPACTION, _LANE, _SWAP = "compaction/", "/write", "LogCompaction."
_MILLISECOND = 1e6


class Slice(TypedDict):
    """One callback: milliseconds of CPU time, on the clock, and of garbage collection in it; and its name."""

    cpu_ms: float
    clock_ms: float
    gc_ms: float
    what: str


class Slices(TypedDict):
    """What END writes: how many slices there were, the longest ones, and the longest ones of the compactor's tasks."""

    count: int
    longest: list[Slice]
    of_compaction: list[Slice]


class _Notes:
    """What is kept while it `is_on`."""

    def __init__(self) -> None:
        self.is_on = False
        self.count = 0
        self.gc_ns = 0
        self._gc_began = 0
        self._all, self._own = _Longest(), _Longest()

    def begin(self) -> None:
        self.count, self._all, self._own = 0, _Longest(), _Longest()
        self.is_on = True

    def end(self, path: Path) -> None:
        self.is_on = False
        part = path.with_suffix(".part")
        found = Slices(count=self.count, longest=self._all.slices, of_compaction=self._own.slices)
        part.write_text(json.dumps(found))
        part.rename(path)

    def note(self, handle: asyncio.Handle, cpu_ns: int, clock_ns: int) -> None:
        task = _task_of(handle)
        is_own = task is not None and (
            task.get_name().startswith(_COMPACTION) or (task.get_name().endswith(_LANE) and _SWAP in name_of(handle))
        )
        kept = [each for each in (self._all, *([self._own] if is_own else [])) if cpu_ns > each.least_ns]
        if kept:
            numbers = [round(each / _MILLISECOND, 4) for each in (cpu_ns, clock_ns, self.gc_ns)]
            found = Slice(cpu_ms=numbers[0], clock_ms=numbers[1], gc_ms=numbers[2], what=name_of(handle))
            for each in kept:
                each.add(found, cpu_ns)

    def collected(self, phase: str, _: dict[str, int]) -> None:
        now = time.thread_time_ns()
        if phase == "start":
            self._gc_began = now
        else:
            self.gc_ns += now - self._gc_began


class _Longest:
    """The longest slices; a shorter one than `least_ns` is not among them."""

    def __init__(self) -> None:
        self.slices: list[Slice] = []
        self.least_ns = 0

    def add(self, found: Slice, cpu_ns: int) -> None:
        self.slices.append(found)
        self.slices.sort(key=lambda each: -each["cpu_ms"])
        del self.slices[_KEPT:]
        if len(self.slices) == _KEPT:
            self.least_ns = int(self.slices[-1]["cpu_ms"] * _MILLISECOND)


def name_of(handle: asyncio.Handle) -> str:
    """Return what a callback was that has run: of a task also the functions that it waits in now."""
    task = _task_of(handle)
    if task is None:
        callback: Any = _callback_of(handle)
        while isinstance(callback, functools.partial):
            callback = callback.func
        name = getattr(callback, "__qualname__", None) or repr(callback)
        # A transport's callbacks are those of all its connections: its protocol says more.
        owner = getattr(callback, "__self__", None)
        protocol = owner.get_protocol() if isinstance(owner, asyncio.Transport) else None
        return name if protocol is None else f"{name} of {type(protocol).__name__}"
    names: list[str] = []
    coroutine: object = task.get_coro()
    while isinstance(coroutine, CoroutineType):
        names.append(coroutine.__qualname__)
        coroutine = coroutine.cr_await
    return f"{task.get_name()}: {' > '.join(names)}"


def _task_of(handle: asyncio.Handle) -> "asyncio.Task[Any] | None":
    owner = getattr(_callback_of(handle), "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


def _callback_of(handle: asyncio.Handle) -> object:
    return handle._callback  # type: ignore[attr-defined]


_notes = _Notes()


def _plant() -> None:
    run = asyncio.Handle._run

    def timed_run(self: asyncio.Handle) -> None:
        if not _notes.is_on:
            run(self)
            return
        _notes.gc_ns = 0
        at, began = time.perf_counter_ns(), time.thread_time_ns()
        run(self)
        cpu, clock = time.thread_time_ns() - began, time.perf_counter_ns() - at
        # The second signal may have come in this slice.
        if _notes.is_on:
            _notes.count += 1
            _notes.note(self, cpu, clock)

    asyncio.Handle._run = timed_run  # type: ignore[method-assign]
    gc.callbacks.append(_notes.collected)


def main() -> int:
    """Run the broker until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sliced_process")
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
