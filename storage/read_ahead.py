"""Reads ahead of whoever reads one log from its files in order: the next run is in memory when it is asked for.

A consumer sends its next fetch when it has parsed the last answer. Meanwhile a thread reads and checks what that fetch
will want, so the consumer waits for neither. A reader counts as one that goes on in order after its second read. What
is read ahead and not asked for is dropped for newer runs; all logs of a node share one bound.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from model.ids import Index, Offset
from storage.entry import Entry
from storage.errors import StorageError
from storage.log_jobs import LogJobs
from storage.log_positions import LogPositions

# Of one run; a reader that asks for more gets this much.
RUN_BYTES_MAX = 4 * 1024 * 1024
# Readers of one log that are followed; those that read longest ago are forgotten.
_READERS_MAX = 8

ReadFiles = Callable[[Index, Index, int], Awaitable[list[Entry]]]


class ReadAheadBudget:
    """Bytes of what the logs of a node have read ahead, or are reading.

    Attributes:
        used: Held now.
        reads: Reads that found their first entry in a run, or waited for it.
        file_reads: Reads that had to wait for files of their own.
    """

    def __init__(self, limit: int) -> None:
        assert limit >= 0
        self.used = self.reads = self.file_reads = 0
        self._limit = limit
        # In the order in which they were begun.
        self._runs: dict[_Run, None] = {}

    def begin(self, size: int) -> "_Run | None":
        """Return a new run of `size` bytes; None: there is no room, even without those that nobody asked for."""
        for run in list(self._runs):
            if self.used + size <= self._limit:
                break
            self.drop(run)
        if self.used + size > self._limit:
            return None
        run = _Run(size)
        self._runs[run] = None
        self.used += size
        return run

    def drop(self, run: "_Run") -> None:
        """Nobody will take the run, or somebody has; while it is being read it counts."""
        run.is_dropped = True
        run.entries = None
        if run.done.is_set() and run in self._runs:
            del self._runs[run]
            self.used -= run.size


@dataclass(slots=True, eq=False)
class _Run:
    """What is read ahead; `entries` is None where it failed or was dropped: whoever waits reads by itself."""

    size: int
    entries: list[Entry] | None = None
    is_dropped: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)


class ReadAhead:
    """One log's. `read_files` reads entries from the files, as `read_run` does.

    What was read before a truncation says nothing of the log after it: it is dropped at the next call.
    """

    def __init__(self, positions: LogPositions, jobs: LogJobs, budget: ReadAheadBudget, read_files: ReadFiles) -> None:
        self._positions = positions
        self._truncations = positions.truncations
        self._jobs = jobs
        self._budget = budget
        self._read_files = read_files
        # The entries at which readers go on, the newest last.
        self._due: dict[Index, None] = {}
        self._runs: dict[Index, _Run] = {}

    async def take(self, first: Index, last: Index, max_bytes: int) -> list[Entry] | None:
        """Return entries from `first` on, at least one, until `last` or `max_bytes`; None: they were not read ahead."""
        self._forget_cut()
        run = self._runs.pop(first, None)
        if run is None:
            self._budget.file_reads += 1
            return None
        try:
            await run.done.wait()
            entries = run.entries
        finally:
            self._budget.drop(run)
        taken: list[Entry] = []
        size = 0
        for entry in entries or ():
            size += entry.size
            if entry.index > last or (taken and size > max_bytes):
                break
            taken.append(entry)
        if not taken:
            self._budget.file_reads += 1
            return None
        self._budget.reads += 1
        return taken

    def index_of_offset(self, offset: Offset) -> Index | None:
        """Return the entry that holds `offset`, if it was read ahead."""
        entries = self._run_with(offset)
        if entries is None:
            return None
        return entries[bisect_right(entries, offset, key=lambda entry: entry.end_offset)].index

    def holds_offset(self, offset: Offset) -> bool:
        """Whether the entry that holds `offset` was read ahead."""
        return self._run_with(offset) is not None

    def _run_with(self, offset: Offset) -> list[Entry] | None:
        self._forget_cut()
        for run in self._runs.values():
            entries = run.entries
            if entries and entries[0].base_offset <= offset < entries[-1].end_offset:
                return entries
        return None

    def follow(self, entries: list[Entry], last: Index, max_bytes: int) -> None:
        """A reader got these entries from the files, or from here; it may read up to `last`. Read ahead of it."""
        self._forget_cut()
        goes_on = entries[0].index in self._due
        self._due.pop(entries[0].index, None)
        following = Index(entries[-1].last_index + 1)
        self._due.pop(following, None)
        self._due[following] = None
        if len(self._due) > _READERS_MAX:
            del self._due[next(iter(self._due))]
        if goes_on and following <= last and following not in self._runs:
            self._begin(following, last, min(max_bytes, RUN_BYTES_MAX))

    def _begin(self, first: Index, last: Index, max_bytes: int) -> None:
        if self._jobs.is_closing:
            return
        while len(self._runs) >= _READERS_MAX:
            self._budget.drop(self._runs.pop(next(iter(self._runs))))
        run = self._budget.begin(max_bytes)
        if run is None:
            return
        self._runs[first] = run
        self._jobs.spawn(self._read(run, first, last, max_bytes), name="read-ahead")

    async def _read(self, run: _Run, first: Index, last: Index, max_bytes: int) -> None:
        truncations = self._positions.truncations
        try:
            entries = await self._read_files(first, last, max_bytes)
            if not run.is_dropped and truncations == self._positions.truncations:
                run.entries = entries
        except (StorageError, OSError):
            # Damage, a disk that hangs, a file that has gone: whoever asks for it reads, and is told.
            pass
        finally:
            run.done.set()
            if run.is_dropped or run.entries is None:
                self._budget.drop(run)

    def _forget_cut(self) -> None:
        if self._truncations == self._positions.truncations:
            return
        self._truncations = self._positions.truncations
        self.drop_all()

    def drop_all(self) -> None:
        """Forget all readers: the log was cut, or is closed."""
        for run in self._runs.values():
            self._budget.drop(run)
        self._runs.clear()
        self._due.clear()
