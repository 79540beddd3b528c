"""raft0's tables as a state of its log (RFC 0001 section 5): commands wait until they are committed.

    note       commands are decoded and wait         truncate   those that a newer leader does not have are forgotten
    commit     they change the tables, in log order  snapshot, restore   the tables as bytes

A command that the tables refuse (a name that was taken in the meantime) is refused on every node alike: the refusal is
part of the function, and the proposer at the leader is told.
"""

import asyncio
from collections import deque
from collections.abc import Iterator

from cluster.commands import Command, decode_command
from cluster.controller_tables import ControllerTables
from cluster.errors import ClusterError
from model.ids import NO_INDEX, Index
from model.topic_config import TopicConfig
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind

# More than can be waiting for their outcome at once.
_REFUSALS_KEPT = 1024


class ControllerState:
    """A `raft.log_state.LogState`.

    Attributes:
        tables: Brokers, topics and producer ids as of `applied_index`.
        applied_index: The last entry whose command, if it is one, has changed the tables.
    """

    def __init__(self, topic_defaults: TopicConfig) -> None:
        self.tables = ControllerTables(topic_defaults)
        self.applied_index = NO_INDEX
        # Noted and not committed, oldest first.
        self._tail: deque[tuple[Index, Command]] = deque()
        # The last commands that were refused: a proposer learns its index only after the entry may be applied.
        self._refused: dict[Index, ClusterError] = {}
        self._waiters: list[tuple[Index, asyncio.Future[None]]] = []

    def refusal(self, index: Index) -> ClusterError | None:
        """Return why the applied command at `index` was refused; None if it was taken (or is long past)."""
        return self._refused.get(index)

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

    def cancel_waiters(self) -> None:
        """Nothing more will be applied."""
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            waiter.cancel()

    # -- LogState -----------------------------------------------------------------------------------------------

    def admit(self, entry: NewEntry) -> None:
        """Admit every entry: the tables judge a command when it is committed."""

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log.

        Raises:
            UnknownCommandError: A newer version wrote it: this node must not go on without it.
        """
        if entry.kind is EntryKind.COMMAND and entry.index > self.applied_index:
            self._tail.append((entry.index, decode_command(entry.payload)))

    def truncate(self, first_removed: Index) -> None:
        """Forget the commands from `first_removed` on; none of them is committed."""
        while self._tail and self._tail[-1][0] >= first_removed:
            self._tail.pop()

    def commit(self, index: Index) -> None:
        """Apply everything up to `index`."""
        while self._tail and self._tail[0][0] <= index:
            self._apply(*self._tail.popleft())
        self._note_applied(index)

    def snapshot(self) -> Iterator[bytes]:
        """Yield the tables as of the last `commit`, part by part."""
        return self.tables.encode()

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        """Begin from a snapshot; entries at or below `applied_index` are in it and are skipped when noted.

        Raises:
            CorruptLogError: The state cannot be read.
        """
        contents = yield from self.tables.decode(state)
        self._tail.clear()
        self.tables.replace(contents)
        self._note_applied(applied_index)

    def reset(self) -> None:
        """Begin from nothing."""
        self._tail.clear()
        self.tables.clear()
        self.applied_index = NO_INDEX

    def _apply(self, index: Index, command: Command) -> None:
        try:
            self.tables.apply(command)
        except ClusterError as refused:
            self._refused[index] = refused
            if len(self._refused) > _REFUSALS_KEPT:
                del self._refused[next(iter(self._refused))]

    def _note_applied(self, index: Index) -> None:
        self.applied_index = max(self.applied_index, index)
        for wanted, waiter in self._waiters:
            if wanted <= self.applied_index and not waiter.done():
                waiter.set_result(None)
