"""Keeps a replica's `LogState` and log start in step with its log, its commit index and its snapshot (RFC 0008).

    note          LOG_START entries wait here until they are committed
    commit        the start moves at once, in memory: reads below it are refused from then on
    in background the snapshot (start, and the state as of a committed entry) becomes durable; then the log deletes

One snapshot is written at a time, and always the newest: what is committed while one is being written needs no file
of its own. It is written when the start moves, when commit passes a closed segment, after so many entries, and at a
clean stop: a start replays what lies behind it, and holds all of that in memory until it learns what is committed.

A state that is too large for a snapshot stops nothing: the former snapshot stays, the log keeps its entries, and the
next try comes after a pause, when the state may have become smaller.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from model.ids import Index
from raft.configuration_entry import decode_configuration, encode_configuration
from raft.configuration_log import ConfigurationLog
from raft.errors import RaftError
from raft.group_configuration import GroupConfiguration
from raft.log_state import LogState
from raft.options import RaftOptions
from raft.probe import RaftProbe
from raft.replica_counts import ReplicaCounts
from raft.replicate_item import NewEntry, ReplicateResult
from raft.stepped_log_state import SteppedLogState
from runtime.gate import Gate
from storage.entry import Entry, EntryKind
from storage.errors import CorruptEntryError, CorruptLogError, RefusedError, SnapshotTooLargeError, StorageError
from storage.log import Log
from storage.log_start import LogStart, decode_log_start
from storage.snapshot_file import Snapshot

# Small: the smallest batches are a thousand of it, and are parsed at one go.
_REPLAY_CHUNK_BYTES = 128 * 1024
# A stop writes no snapshot, which costs three fsyncs, to spare the next start less than this.
_STOP_ENTRIES = 1000
_STOP_BYTES = 4 * 1024 * 1024
# After a disk without room for a snapshot: nothing is lost by waiting, the entries are still there.
_SAVE_PAUSE = 5.0
# After a state that was too large: to find that out, as much is encoded as a snapshot may hold.
_TOO_LARGE_PAUSE = 60.0


class _Owner(NamedTuple):
    """What the replica lends for the work in the background."""

    gate: Gate
    logger: logging.LoggerAdapter[logging.Logger]
    on_failed: Callable[[StorageError], object]
    probe: RaftProbe
    counts: ReplicaCounts


class ReplicaLogState:
    """See the module. One per replica, from the open of its log on.

    Attributes:
        configurations: Who the members are, by the log.
        refusal: Why the state was too large for a snapshot when it was last looked at; None: it was not.
    """

    def __init__(self, log: Log, state: LogState, options: RaftOptions, configurations: ConfigurationLog) -> None:
        self.configurations = configurations
        self._log = log
        self._options = options
        self._stepped = SteppedLogState(log, state, options.state_step_entries, options.state_bytes_max)
        self._state = state
        self._owner: _Owner | None = None
        # LOG_START entries that are not committed yet, oldest first.
        self._pending: deque[tuple[Index, LogStart]] = deque()
        self._is_save_due = False
        self._is_saving = False
        # Held while a snapshot is written or installed.
        self._snapshot_lock = asyncio.Lock()
        self.refusal: str | None = None
        # Loop time until when nobody looks again.
        self._refused_until = 0.0

    async def replay(self) -> None:
        """Take the snapshot and the entries behind it, before the replica takes part.

        Raises:
            StorageError: The log cannot be read, or what it says cannot be understood.
        """
        snapshot = self._log.pop_snapshot()
        if snapshot is not None:
            await self._restore(snapshot)
        await self._replay_log()

    def attach(
        self,
        gate: Gate,
        logger: logging.LoggerAdapter[logging.Logger],
        on_failed: Callable[[StorageError], object],
        probe: RaftProbe,
        counts: ReplicaCounts,
    ) -> None:
        """The replica takes part: snapshots are saved in `gate`, and `on_failed` is told of a log that fails."""
        self._owner = _Owner(gate, logger, on_failed, probe, counts)
        self._stepped.attach(gate, counts)

    @property
    def applied_index(self) -> Index:
        """The last committed entry that the state includes; commit may be ahead of it for a moment."""
        return self._stepped.applied_index

    # -- following the log --------------------------------------------------------------------------------------

    def admit(self, entry: NewEntry) -> ReplicateResult | RaftError | None:
        """Leader: judge an entry before it gets its place; see `LogState.admit`."""
        return self._state.admit(entry)

    def note(self, entry: Entry) -> None:
        """An entry got its place at the end of the log; if it cannot be written, `truncate` follows.

        Raises:
            CorruptLogError: A LOG_START entry or a configuration that cannot be understood, or a placeholder behind
                what the state includes: what was there is not known.
        """
        if entry.kind is EntryKind.LOG_START and entry.index > self._stepped.applied_index:
            start = decode_log_start(entry.payload)
            if not (1 <= start.index <= entry.index and 0 <= start.base_offset <= start.offset <= entry.base_offset):
                raise CorruptLogError(f"entry {entry.index} moves the log start to {start}")
            self._pending.append((entry.index, start))
        elif entry.kind is EntryKind.PLACEHOLDER and entry.last_index > self._stepped.applied_index:
            raise CorruptLogError(
                f"entries {entry.index} to {entry.last_index} were compacted, and the state is as of entry"
                f" {self._stepped.applied_index} only"
            )
        elif entry.kind is EntryKind.CONFIGURATION:
            self.configurations.note(entry.index, _decoded(entry))
        self._stepped.note(entry)

    def truncate(self, first_removed: Index) -> None:
        """The entries from `first_removed` on are gone."""
        while self._pending and self._pending[-1][0] >= first_removed:
            self._pending.pop()
        self.configurations.truncate(first_removed)
        self._stepped.truncate(first_removed)

    def on_commit(self, commit: Index) -> None:
        """The commit index is `commit` now."""
        self.configurations.commit(commit)
        self._stepped.commit(commit)
        self._advance_or_save(commit)

    def _advance_or_save(self, commit: Index) -> None:
        start = self._log.start
        while self._pending and self._pending[0][0] <= commit:
            start = max(start, self._pending.popleft()[1], key=_place)
        if _place(start) > _place(self._log.start):
            self._advance(start)
        elif not self._is_saving and self._is_worth_saving():
            self._save_soon()

    def _advance(self, start: LogStart) -> None:
        assert self._owner is not None
        try:
            self._log.advance_start(start)
        except CorruptLogError as error:
            self._owner.counts.apply_failed(EntryKind.LOG_START)
            self._owner.on_failed(error)
        else:
            self._save_soon()

    # -- snapshots ----------------------------------------------------------------------------------------------

    async def take_snapshot(self) -> Snapshot:
        """Return the start, and the state as of what is committed.

        Raises:
            SnapshotTooLargeError: The state is too large; for a while that is what the last look has shown.
        """
        now = asyncio.get_running_loop().time()
        if self.refusal is not None and now < self._refused_until:
            raise SnapshotTooLargeError(self.refusal)
        try:
            snapshot = await self._stepped.take_snapshot()
            configuration = self.configurations.changed_until(snapshot.applied_index)
            if configuration is not None:
                snapshot = msgspec.structs.replace(snapshot, configuration=encode_configuration(configuration))
        except SnapshotTooLargeError as error:
            self._refuse_until(str(error), now + _TOO_LARGE_PAUSE)
            raise
        self.refusal = None
        return snapshot

    def _refuse_until(self, why: str, until: float) -> None:
        self.refusal, self._refused_until = why, until
        if self._owner is not None:
            self._owner.probe.snapshots_refused += 1
            self._owner.logger.error(
                "no snapshot, again in %g s: %s; the log keeps its entries, make the state smaller",
                *(_TOO_LARGE_PAUSE, why),
            )

    async def save_before_stop(self) -> None:
        """Spare the next start its replay, where that is much.

        Raises:
            StorageError: The disk refuses; nothing is lost.
        """
        log, behind = self._log, self._stepped.committed - self._log.snapshot_index
        count = log.dirty_index - log.start_index + 1
        is_much = behind >= _STOP_ENTRIES or (count > 0 and behind * log.size_bytes / count >= _STOP_BYTES)
        if is_much and not self._stepped.is_empty:
            async with self._snapshot_lock:
                await log.save_snapshot(await self.take_snapshot())

    async def install(self, snapshot: Snapshot) -> None:
        """Follower, under op_lock: replace what a leader no longer has the entries for.

        Raises:
            StorageError: The log is poisoned, or the state cannot be understood.
        """
        async with self._snapshot_lock:
            # A heartbeat may commit what is not noted again yet.
            async with self._stepped.unchanged():
                if not await self._log.install(snapshot):
                    return
                self._pending.clear()
                await self._restore(snapshot)
                await self._replay_log()
            self._advance_or_save(self._stepped.committed)

    async def _restore(self, snapshot: Snapshot) -> None:
        await self._stepped.restore(snapshot)
        try:
            configuration = decode_configuration(snapshot.configuration) if snapshot.configuration else None
        except CorruptEntryError as error:
            raise CorruptLogError(f"the snapshot as of entry {snapshot.applied_index}: {error}") from error
        self.configurations.restore(snapshot.applied_index, configuration)

    async def _replay_log(self) -> None:
        index = max(self._stepped.applied_index + 1, self._log.start_index)
        while index <= self._log.dirty_index:
            for entry in await self._log.read(Index(index), _REPLAY_CHUNK_BYTES):
                self.note(entry)
                index = entry.last_index + 1
                if index % self._options.state_step_entries == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(0)

    def _is_worth_saving(self) -> bool:
        """Whether a start would have much to replay."""
        log, commit = self._log, self._stepped.committed
        if self._stepped.is_empty:
            return False
        is_segment_closed = commit >= log.closed_index > log.snapshot_index
        return is_segment_closed or commit - log.snapshot_index >= self._options.snapshot_entries

    def _save_soon(self) -> None:
        self._is_save_due = True
        if not self._is_saving and self._owner is not None:
            self._is_saving = True
            self._owner.gate.spawn(self._save(self._owner), name="snapshot")

    async def _save(self, owner: _Owner) -> None:
        try:
            while self._is_save_due or self._is_worth_saving():
                self._is_save_due = False
                try:
                    async with self._snapshot_lock:
                        # Taken here and written at once: an install in between would make it a lie.
                        await self._log.save_snapshot(await self.take_snapshot())
                except RefusedError as error:
                    owner.logger.warning("the snapshot is not written, again in %g s: %s", _SAVE_PAUSE, error)
                    self._is_save_due = True
                    await asyncio.sleep(_SAVE_PAUSE)
                except SnapshotTooLargeError:
                    self._is_save_due = True
                    await asyncio.sleep(_TOO_LARGE_PAUSE)
        except StorageError as error:
            owner.on_failed(error)
        finally:
            self._is_saving = False


def _decoded(entry: Entry) -> GroupConfiguration:
    try:
        return decode_configuration(entry.payload)
    except CorruptEntryError as error:
        raise CorruptLogError(f"entry {entry.index}: {error}") from error


def _place(start: LogStart) -> tuple[int, int]:
    return start.index, start.offset
