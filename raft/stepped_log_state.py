"""Settles, saves and restores a `LogState` in bounded steps, with other tasks of the loop in between.

    commit     settles (applies for good) a few entries at once, and the rest in the background
    snapshot   settles everything that is committed, then encodes the state
    restore    decodes the new state beside the old one, and then replaces that

One call may settle many entries: after a restart the commit index is not known, and the first `commit` may cover
everything behind the newest snapshot. So settling may lag behind commit. A committed entry that is not settled yet is
still noted, so `admit` gives the same verdicts. Nothing is settled while a snapshot is encoded or restored, so the
state that it holds is that of one index, however many steps it takes.

A step settles entries of one kind after the other, so that each duration is counted for its kind (`call_figures`).

A `HoldingLogState` says how far a step may go. Settling then waits in the background, and a snapshot waits with it.
A `PacedLogState` ends a step amid an entry that is more work than a step.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable

from model.ids import Index, Term
from raft.log_state import HoldingLogState, LogState, NoLogState, PacedLogState
from raft.replica_counts import ReplicaCounts
from runtime.gate import Gate
from storage.entry import Entry, EntryKind
from storage.errors import SnapshotTooLargeError
from storage.log import Log
from storage.snapshot_file import Snapshot


class SteppedLogState:
    """See the module.

    Args:
        step_entries: How many entries are noted or settled before other tasks run.
        bytes_max: What a snapshot may hold of the state.

    Attributes:
        state: What is noted goes straight to it.
        applied_index: The committed entry that the settled state includes last.
        committed: What `commit` was told last; settled soon.
    """

    def __init__(self, log: Log, state: LogState, step_entries: int, bytes_max: int) -> None:
        self.state = state
        self._holding = state if isinstance(state, HoldingLogState) else None
        self._paced = state if isinstance(state, PacedLogState) else None
        self._log = log
        self._step_entries = step_entries
        self._bytes_max = bytes_max
        self.applied_index = Index(log.start_index - 1)
        self.committed = self.applied_index
        # The newest index at which the state was replaced; the log need not hold that entry.
        self._origin = (self.applied_index, log.term_at(self.applied_index))
        self._gate: Gate | None = None
        self._counts: ReplicaCounts | None = None
        # The loop's clock.
        self._now: Callable[[], float] | None = None
        # (first index, kind) of each run of entries of one kind that are noted, oldest first; the first run may have
        # been settled in part.
        self._runs: deque[tuple[Index, EntryKind]] = deque()
        self._is_settling = False
        # Held while the settled state must not change.
        self._lock = asyncio.Lock()

    @property
    def is_empty(self) -> bool:
        """Whether there is no state to speak of."""
        return isinstance(self.state, NoLogState)

    @property
    def applied_term(self) -> Term:
        """The term of the entry at `applied_index`."""
        index, term = self._origin
        return term if index == self.applied_index else self._log.term_at(self.applied_index)

    def attach(self, gate: Gate, counts: ReplicaCounts) -> None:
        """What a commit leaves to be settled is settled in `gate`; how long it takes goes to `counts`."""
        self._gate = gate
        self._counts = counts
        self._now = asyncio.get_running_loop().time

    def note(self, entry: Entry) -> None:
        """An entry got its place at the end of the log."""
        if entry.index > self.applied_index and (not self._runs or self._runs[-1][1] is not entry.kind):
            self._runs.append((entry.index, entry.kind))
        self.state.note(entry)

    def truncate(self, first_removed: Index) -> None:
        """The entries from `first_removed` on are gone; none of them is committed."""
        while self._runs and self._runs[-1][0] >= first_removed:
            self._runs.pop()
        self.state.truncate(first_removed)

    def commit(self, index: Index) -> None:
        """Everything up to `index` is final, and was noted unless the state is being replaced just now."""
        if index <= self.committed:
            return  # A replica that was restored learns again what is committed.
        self.committed = index
        if not self._is_settling and not self._lock.locked():
            self._step()
            self._go_on()

    async def take_snapshot(self) -> Snapshot:
        """Settle what is committed, and return it with the log start of that moment.

        Raises:
            SnapshotTooLargeError: There is more of it than a snapshot holds; told as soon as that is known.
        """
        async with self.unchanged():
            while self.applied_index < self.committed:
                await self._wait_until_it_settles()
                self._step()
                await asyncio.sleep(0)
            index, term, start = self.applied_index, self.applied_term, self._log.start
            parts, size = [], 0
            for part in self.state.snapshot():
                parts.append(part)
                size += len(part)
                if size > self._bytes_max:
                    raise SnapshotTooLargeError(f"state of more than {self._bytes_max} bytes at entry {index}")
                await asyncio.sleep(0)
        return Snapshot(start, index, term, b"".join(parts))

    async def restore(self, snapshot: Snapshot) -> None:
        """Replace what is here, noted entries included; only within `unchanged`, or before anything is committed.

        Raises:
            CorruptLogError: The state cannot be understood.
        """
        for wanted in self.state.restore(snapshot.state, snapshot.applied_index):
            await (asyncio.sleep(0) if wanted is None else wanted)
        self.applied_index = snapshot.applied_index
        self._runs.clear()
        self._origin = (snapshot.applied_index, snapshot.applied_term)
        self.committed = max(self.committed, self.applied_index)

    @contextlib.asynccontextmanager
    async def unchanged(self) -> AsyncIterator[None]:
        """Settle nothing inside; what is committed meanwhile is settled behind it."""
        try:
            async with self._lock:
                yield
        finally:
            self._go_on()

    def _go_on(self) -> None:
        if self.applied_index < self.committed and not self._is_settling and self._gate is not None:
            self._is_settling = True
            self._gate.spawn(self._settle(), name="settle")

    async def _settle(self) -> None:
        try:
            while self.applied_index < self.committed:
                await self._wait_until_it_settles()
                async with self._lock:
                    self._step()
                await asyncio.sleep(0)
        finally:
            self._is_settling = False

    async def _wait_until_it_settles(self) -> None:
        if self._holding is not None:
            await self._holding.wait_until_it_settles()

    def _step(self) -> None:
        index = Index(min(self.committed, self.applied_index + self._step_entries))
        if self._holding is not None:
            index = self._holding.settles_until(index)
        while self.applied_index < index and self._apply(index):
            pass

    def _apply(self, index: Index) -> bool:
        """Settle up to `index` at most: the entries that are of the kind of the next one.

        Returns whether they are settled: if not, the step is over.
        """
        runs = self._runs
        end = index if len(runs) < 2 else self._end_of_run(index)
        counts, now = self._counts, self._now
        if counts is None or now is None or not runs:
            self.applied_index = self._commit(end)
            return self.applied_index == end
        kind, began, is_applied = runs[0][1], now(), False
        try:
            self.applied_index = self._commit(end)
            is_applied = True
        finally:
            if not is_applied:
                counts.apply_failed(kind)
        ended = now()
        counts.applied(kind, ended - began, ended)
        return self.applied_index == end

    def _commit(self, index: Index) -> Index:
        if self._paced is not None:
            return self._paced.commit_some(index)
        self.state.commit(index)
        return index

    def _end_of_run(self, index: Index) -> Index:
        """Return the last entry up to `index` that is of the kind of the next one to settle; forget older runs."""
        runs, first = self._runs, self.applied_index + 1
        while len(runs) > 1 and runs[1][0] <= first:
            runs.popleft()
        return index if len(runs) < 2 else Index(min(index, runs[1][0] - 1))
