"""Applies the committed entries of one group, in order and exactly once per life of the process."""

import asyncio
from typing import Protocol

from model.ids import Index
from raft.consensus import Consensus
from raft.errors import RaftError
from raft.options import RaftOptions
from runtime.gate import Gate
from storage.entry import Entry
from storage.errors import LogTruncatedError, StorageError


class StateMachine(Protocol):
    """A table that is a function of the log."""

    def apply(self, entry: Entry) -> None:
        """Apply one committed entry of any kind; must be deterministic and must not block."""
        ...


class StateMachineApplier:
    """Feeds one state machine from one replica. `applied_index` <= commit at all times."""

    def __init__(self, consensus: Consensus, machine: StateMachine, options: RaftOptions) -> None:
        self._consensus = consensus
        self._machine = machine
        self._options = options
        self._gate = Gate(f"apply {consensus.group}")
        self._progress = asyncio.Event()
        self._waiters: list[tuple[Index, asyncio.Future[None]]] = []
        self._watcher = 0
        self.applied_index = Index(consensus.log.start_index - 1)

    def start(self) -> None:
        """Apply from the start of the log, then follow commit."""
        self._watcher = self._consensus.monitor.watch(self._progress.set)
        self._gate.spawn(self._run(), name="apply")

    async def stop(self) -> None:
        """Apply nothing more; whoever waits is cancelled."""
        self._consensus.monitor.unwatch(self._watcher)
        await self._gate.close()
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            waiter.cancel()

    @property
    def is_in_office(self) -> bool:
        """The replica leads, and everything up to the barrier of its term is applied."""
        state = self._consensus.state
        return state.is_in_office and self.applied_index >= state.barrier_index

    async def wait_applied(self, index: Index) -> None:
        """Return once `index` is applied. The caller bounds the wait with `asyncio.timeout`."""
        if self.applied_index >= index:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((index, waiter))
        try:
            await waiter
        finally:
            self._waiters = [each for each in self._waiters if each[1] is not waiter]

    async def _run(self) -> None:
        consensus = self._consensus
        while consensus.failure is None:
            self._progress.clear()
            commit = consensus.state.commit_index
            if commit <= self.applied_index:
                await self._progress.wait()
                continue
            try:
                entries = await consensus.log.read(
                    Index(self.applied_index + 1), self._options.apply_chunk_bytes, commit
                )
            except (StorageError, RaftError) as error:
                if isinstance(error, LogTruncatedError):
                    raise
                consensus.fail(error)
                return
            for entry in entries:
                self._apply(entry)
            # Other tasks run between chunks: a long replay must not hold up heartbeats.
            await asyncio.sleep(0)

    def _apply(self, entry: Entry) -> None:
        assert entry.index == self.applied_index + 1
        assert entry.index <= self._consensus.state.commit_index
        self._machine.apply(entry)
        self.applied_index = entry.index
        for index, waiter in self._waiters:
            if index <= entry.index and not waiter.done():
                waiter.set_result(None)
