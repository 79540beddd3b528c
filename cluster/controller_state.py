"""raft0's tables as a state of its log (RFC 0001 section 5): commands wait until they are committed.

    note       commands are decoded and wait         truncate   those that a newer leader does not have are forgotten
    commit     they change the tables, in log order  snapshot, restore   the tables as bytes

What the tables have no room for is refused before it gets its place in the log; what is noted counts (`state_bounds`).
A command that the tables refuse (a name that was taken in the meantime) is refused on every node alike: the refusal is
part of the function, and the proposer at the leader gets it.

Before a level of a feature is applied, the data directory is stamped with it (`directory_stamp`): the entry that raises
the level, and all behind it, wait for that.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterator, Mapping
from typing import Protocol

from cluster.commands import Command, SetFeature, UnknownCommandError, decode_command
from cluster.controller_tables import ControllerTables, UnsupportedLevelError
from cluster.errors import ClusterError, FeatureUpdateError
from cluster.placement import Replicas
from cluster.state_bounds import Fill, StateBound, StateFullError, StateOptions
from cluster.vital_commands import is_vital
from model.features import OFFERED, LevelRange
from model.ids import NO_INDEX, Index
from model.topic_config import InvalidConfigError, TopicConfig
from raft.replicate_item import NewEntry
from storage.entry import Entry, EntryKind
from storage.snapshot_file import STATE_BYTES_MAX

# More than can be waiting for their outcome at once.
_REFUSALS_KEPT = 1024
_CURE = "delete topics, or take fewer partitions"
# Behind all entries.
_NOWHERE = (Index(2**63 - 1), SetFeature("", 0))


class LevelStamp(Protocol):
    """What is durable before this node applies a level of a feature; `DirectoryStamp` is one."""

    def covers(self, levels: Mapping[str, int]) -> bool:
        """Whether it is, for all of these; for ever then."""
        ...

    async def ensure(self, levels: Mapping[str, int]) -> None:
        """Return once it is, however long the disk takes."""
        ...


class ControllerState:
    """A `raft.log_state.LogState`, and a `HoldingLogState`.

    Args:
        topic_defaults: Fill what a topic leaves open.
        options: Bounds of the tables.
        offered: The levels of features that this broker can work at.
        founders: The brokers that founded the cluster, raft0's first voters.
        stamp: What an applied level waits for; None: nothing.

    Attributes:
        tables: Brokers, topics, producer ids, features and options as of `applied_index`.
        applied_index: The last entry whose command, if it is one, has changed the tables.
    """

    def __init__(
        self,
        topic_defaults: TopicConfig,
        options: StateOptions | None = None,
        offered: Mapping[str, LevelRange] = OFFERED,
        founders: Replicas = (),
        stamp: LevelStamp | None = None,
    ) -> None:
        self.tables = ControllerTables(topic_defaults, offered, founders)
        self.applied_index = NO_INDEX
        options = options or StateOptions()
        self._bound = StateBound("the tables of raft0", "bytes", options.raft0_bytes_max, _CURE)
        # Noted and not committed, oldest first, with the bytes that are kept free for each.
        self._tail: deque[tuple[Index, Command, int]] = deque()
        self._reserved = 0
        self._stamp = stamp
        # Noted and not applied: the entries that set a level, oldest first.
        self._raising: deque[tuple[Index, SetFeature]] = deque()
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

    def judge(self, command: Command) -> StateFullError | None:
        """Return why the tables have no room for a command, behind all that lies in the log; None: they have.

        What the cluster needs to say where it is, and to repair itself, has what lies between the bound and a
        snapshot's own (`vital_commands`).
        """
        tables, reserved = self.tables, self._reserved
        before = tables.size_bytes + reserved
        # Alone, a command's effect is known exactly. Behind others it may not be what it is now.
        after = before + tables.reserve_bytes(command) if self._tail else tables.size_with(command)
        allowed = STATE_BYTES_MAX if is_vital(command, tables.topics, tables.members) else None
        return self._bound.judge(before, after, allowed=allowed)

    def admit(self, entry: NewEntry) -> StateFullError | None:
        """Refuse what the tables would have no room for; whether they take it otherwise shows when it is committed."""
        return self.judge(decode_command(entry.payload)) if entry.kind is EntryKind.COMMAND else None

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log.

        Raises:
            UnknownCommandError: A newer version wrote it: this node must not go on without it.
        """
        if entry.kind is EntryKind.COMMAND and entry.index > self.applied_index:
            command = decode_command(entry.payload)
            try:
                self.tables.check(command)
            except (InvalidConfigError, UnsupportedLevelError) as error:
                raise UnknownCommandError(f"raft0 entry {entry.index} sets what is unknown here: {error}") from error
            reserved = self.tables.reserve_bytes(command)
            # L3 of RFC 0008: commands are applied in the order of the log, as every other replica applies them.
            assert not self._tail or self._tail[-1][0] < entry.index
            self._tail.append((entry.index, command, reserved))
            self._reserved += reserved
            if isinstance(command, SetFeature):
                self._raising.append((entry.index, command))

    def truncate(self, first_removed: Index) -> None:
        """Forget the commands from `first_removed` on; none of them is committed."""
        while self._tail and self._tail[-1][0] >= first_removed:
            self._reserved -= self._tail.pop()[2]
        while self._raising and self._raising[-1][0] >= first_removed:
            self._raising.pop()

    def settles_until(self, index: Index) -> Index:
        """Return `index`, or the last entry before a level that the stamp is missing for."""
        first, command = self._next_unstamped()
        if first > index or (first == self.applied_index + 1 and self._is_refused(command)):
            return min(index, first)
        return Index(first - 1)

    async def wait_until_it_settles(self) -> None:
        """Stamp the directory if the next entry raises a level; it waits as long as the disk refuses or hangs."""
        while self.settles_until(next_index := Index(self.applied_index + 1)) < next_index:
            assert self._stamp is not None
            _, command = self._next_unstamped()
            await self._stamp.ensure({command.name: command.level})

    def _next_unstamped(self) -> tuple[Index, SetFeature]:
        """Return the first entry that sets a level which the stamp lacks; one behind all entries: there is none."""
        if self._stamp is not None:
            for index, command in self._raising:
                if not self._stamp.covers({command.name: command.level}):
                    return index, command
        return _NOWHERE

    def _is_refused(self, command: SetFeature) -> bool:
        """Whether the tables refuse a level now. It is not applied then, and the former version may come back."""
        try:
            self.tables.check_level(command)
        except FeatureUpdateError:
            return True
        return False

    def commit(self, index: Index) -> None:
        """Apply everything up to `index`."""
        while self._tail and self._tail[0][0] <= index:
            noted, command, reserved = self._tail.popleft()
            # L3 of RFC 0008: no command changes the tables twice.
            assert noted > self.applied_index
            self._reserved -= reserved
            if self._raising and self._raising[0][0] <= noted:
                self._raising.popleft()
            self._apply(noted, command)
        # B1 of RFC 0008: what is kept free is kept for commands that are to be applied.
        assert self._reserved >= 0
        assert self._tail or not self._reserved
        self._advance_applied(index)

    def fills(self) -> list[Fill]:
        """Return how full the tables are; what is noted counts."""
        return [self._bound.fill(self.tables.size_bytes + self._reserved)]

    def snapshot(self) -> Iterator[bytes]:
        """Yield the tables as of the last `commit`, part by part."""
        return self.tables.encode()

    def restore(self, state: bytes, applied_index: Index) -> Iterator[Awaitable[None] | None]:
        """Begin from a snapshot; entries at or below `applied_index` are in it and are skipped when noted.

        A level that needs the stamp waits for it.

        Raises:
            CorruptLogError: The state cannot be read.
        """
        contents = yield from self.tables.decode(state)
        if self._stamp is not None and not self._stamp.covers(contents.levels):
            yield self._stamp.ensure(contents.levels)
        self._tail.clear()
        self._raising.clear()
        self._reserved = 0
        # Before the tables tell their listeners: these ask how far the tables are applied.
        self._advance_applied(applied_index)
        self.tables.replace(contents)

    def reset(self) -> None:
        """Begin from nothing."""
        self._tail.clear()
        self._raising.clear()
        self._reserved = 0
        self.tables.clear()
        self.applied_index = NO_INDEX

    def _apply(self, index: Index, command: Command) -> None:
        try:
            self.tables.apply(command, index)
        except ClusterError as refused:
            self._refused[index] = refused
            if len(self._refused) > _REFUSALS_KEPT:
                del self._refused[next(iter(self._refused))]

    def _advance_applied(self, index: Index) -> None:
        self.applied_index = max(self.applied_index, index)
        for wanted, waiter in self._waiters:
            if wanted <= self.applied_index and not waiter.done():
                waiter.set_result(None)
