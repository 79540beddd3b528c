"""Settles, saves and restores a `LogState` in bounded steps, with other tasks of the loop in between.

    commit     settles (applies for good) a few entries at once, and the rest in the background
    snapshot   settles everything that is committed, then encodes the state
    restore    decodes the new state beside the old one, and then replaces that

One call may settle many entries: after a restart the commit index is not known, and the first `commit` may cover
everything behind the newest snapshot. So settling may lag behind commit. A committed entry that is not settled yet is
still noted, so `admit` gives the same verdicts. Nothing is settled while a snapshot is encoded or restored, so the
state that it holds is that of one index, however many steps it takes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from model.ids import Index, Term
from raft.log_state import LogState, NoLogState
from runtime.gate import Gate
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
        self._log = log
        self._step_entries = step_entries
        self._bytes_max = bytes_max
        self.applied_index = Index(log.start_index - 1)
        self.committed = self.applied_index
        # The newest index at which the state was replaced; the log need not hold that entry.
        self._origin = (self.applied_index, log.term_at(self.applied_index))
        self._gate: Gate | None = None
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

    def attach(self, gate: Gate) -> None:
        """What a commit leaves to be settled is settled in `gate`."""
        self._gate = gate

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
        for _ in self.state.restore(snapshot.state, snapshot.applied_index):
            await asyncio.sleep(0)
        self.applied_index = snapshot.applied_index
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
                async with self._lock:
                    self._step()
                await asyncio.sleep(0)
        finally:
            self._is_settling = False

    def _step(self) -> None:
        index = Index(min(self.committed, self.applied_index + self._step_entries))
        if index > self.applied_index:
            self.state.commit(index)
            self.applied_index = index
