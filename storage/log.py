"""The log of one replica: append, flush, truncate, read, snapshots (RFC 0002); lookups are its reader's.

The owner (raft's op_lock) never overlaps an append, a truncation or an install with another of them; flushes, reads
and saved snapshots overlap with all. Every position is consistent with the others whenever the loop runs: they move
in synchronous steps.
"""

from collections.abc import Callable, Sequence

from model.error_text import reason_of
from model.ids import NO_INDEX, Index
from runtime.environment import Environment
from runtime.open_files import NO_DESCRIPTORS, OpenFiles
from runtime.workers import Pool
from storage.entry import Entry
from storage.errors import LogPoisonedError, OpenFilesError, StorageError
from storage.group_logger import GroupLogger
from storage.log_appender import LogAppender
from storage.log_compaction import LogCompaction
from storage.log_context import LogContext
from storage.log_directory import claim_log_directory, remove_log_directory
from storage.log_flusher import LogFlusher
from storage.log_health import LogHealth
from storage.log_jobs import LogJobs
from storage.log_positions import LogPositions
from storage.log_reader import LogReader
from storage.log_recovery import LogRecovery, RecoveredLog, RecoveryRequest
from storage.log_segments import LogSegments
from storage.log_snapshots import LogSnapshots
from storage.log_truncation import LogTruncation
from storage.options import LogIdentity, LogOptions
from storage.read_ahead import ReadAheadBudget
from storage.read_cache import CacheBudgets, ReadCache, ReadCacheBudget, free
from storage.rows_budget import RowsBudget
from storage.segment import SegmentFacts
from storage.segment_indexer import SegmentIndexer
from storage.snapshot_file import Snapshot
from storage.tail_cache import TailCache
from storage.verified_ranges import VerifiedBudget

# Of a log that shares them with no other.
_OPEN_FILES = 1024


class Log(LogPositions):
    """See the module. Made by `open`, ended by `close` or `remove`.

    Attributes:
        name: What log lines and errors call it: `orders-0`.
        reader: Lookups by offset and timestamp.
        health: Whether it may still write; the owner says there how it wants to be told.
        compaction: What a pass may clean, and the swap of what it has written.
        has_damaged_copies: Damage was isolated, at this open or an earlier one, and `forget_damaged` not called since.
    """

    def __init__(
        self,
        env: Environment,
        directory: str,
        identity: LogIdentity,
        options: LogOptions,
        recovered: RecoveredLog,
        caches: CacheBudgets | None,
        open_files: OpenFiles,
    ) -> None:
        super().__init__(recovered.start, recovered.terms, recovered.last_index, recovered.next_offset)
        self.has_damaged_copies = recovered.has_damaged_copies
        self._segments = LogSegments(recovered.segments, RowsBudget(0) if caches is None else caches.rows)
        self._read_cache = ReadCache(ReadCacheBudget(0) if caches is None else caches.read)
        self._tail = TailCache(
            options.tail_cache_bytes, None if caches is None else caches.tail, self._read_cache.admit
        )
        self.name = identity.name
        self.health = LogHealth(identity.name)
        self._jobs = LogJobs(env, identity.name, self.health)
        context = LogContext(
            *(env, open_files, directory, identity.group, self),
            *(self._segments, self._tail, self._read_cache, self._jobs, self.health),
        )
        self._context = context
        self.reader = LogReader(
            context,
            ReadAheadBudget(0) if caches is None else caches.ahead,
            VerifiedBudget(0) if caches is None else caches.verified,
        )
        self._indexer = SegmentIndexer(context)
        self._flusher = LogFlusher(context, self._indexer)
        self._appender = LogAppender(context, options)
        self._truncation = LogTruncation(context)
        self._snapshots = LogSnapshots(context, recovered.snapshot, recovered.compacted_index)
        self.compaction = LogCompaction(context, self._snapshots, self._indexer, options.index_interval_bytes)

    @classmethod
    async def open(
        cls,
        env: Environment,
        directory: str,
        identity: LogIdentity,
        options: LogOptions,
        *,
        known_index: Index = NO_INDEX,
        isolate: bool = False,
        rescan: frozenset[str] = frozenset(),
        caches: CacheBudgets | None = None,
        open_files: OpenFiles | None = None,
    ) -> "Log":
        """Open the log in `directory`, making it if it does not exist, and recover it from a crash.

        Args:
            env: The seams.
            directory: The replica's own.
            identity: Whose log it must be.
            options: Of its topic.
            known_index: The caller knows that the entries up to here were fsynced and never truncated.
            isolate: Open the log without what is damaged below the mark and all behind it; copies of that stay until
                `forget_damaged`. The caller has persisted the DamagedLogError's `lost_end` before.
            rescan: Paths of segments that a read found damaged (`CorruptLogError.path`): scanned, whatever their
                index files say.
            caches: Shared by all logs of the node; None: this log has a tail cache of its own, and no other.
            open_files: Shared by all logs of the node; None: this log's own.

        Raises:
            ForeignDirectoryError: It belongs to another group, data directory or format; nothing was touched.
            ForeignSegmentError: A segment in it is another log's; nothing was touched.
            UnknownFormatError: A newer version wrote something in it; nothing was touched.
            MismatchedLogError: It ends before `known_index`; nothing was touched.
            DamagedLogError: Durable bytes are damaged and `isolate` is False; nothing was touched.
            CorruptLogError: Damage that cannot be isolated; nothing was touched.
            OpenFilesError: There is no descriptor left; try again later.
            LogPoisonedError: The disk refused.
        """
        files = open_files if open_files is not None else OpenFiles(env.files, _OPEN_FILES)

        def recover() -> RecoveredLog:
            claim_log_directory(files, directory, identity)
            request = RecoveryRequest(known_index, isolate, rescan, env.wall_clock.now_ms())
            return LogRecovery(files, directory, identity.group, options, request).run()

        try:
            recovered = await env.workers.run(Pool.APPEND, recover)
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise OpenFilesError(f"{directory}: {reason_of(error)}: raise `ulimit -n`") from error
            raise LogPoisonedError(f"{directory}: {reason_of(error)}") from error
        if recovered.damage is not None:
            GroupLogger(identity.name).warning(
                "%s, %d bytes, the log ends at %d: %s",
                "damage is isolated" if recovered.is_isolated else "a torn tail is cut",
                recovered.cut_bytes,
                recovered.last_index,
                recovered.damage,
            )
        log = cls(env, directory, identity, options, recovered, caches, files)
        log._indexer.start()
        return log

    @property
    def is_poisoned(self) -> bool:
        """A write or an fsync failed: nothing works any more but reading."""
        return self.health.is_poisoned

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self._segments.size_bytes

    @property
    def snapshot_index(self) -> Index:
        """The `applied_index` of the newest durable snapshot, 0 if there is none."""
        return self._snapshots.applied_index

    @property
    def compacted_index(self) -> Index:
        """Up to here records may be gone, and no state is derived from entries (RFC 0022, section 7); 0: none is."""
        return self._snapshots.compacted_index

    @property
    def closed_index(self) -> Index:
        """The last index of the newest closed segment, 0 if there is none."""
        return self._segments.closed_index

    def segments_for_retention(self) -> list[SegmentFacts]:
        """Return what is known of the segments that hold readable entries, oldest first."""
        return self._segments.facts(self.start_index)

    # -- append -------------------------------------------------------------------------------------------------

    async def append(self, entries: Sequence[Entry]) -> None:
        """Write entries that follow `dirty_index`; not durable before a flush.

        `pending_index` moves at once, `dirty_index` when they are written. A cancelled caller does not stop the
        write: its effect arrives all the same, and the next append waits for it.

        Raises:
            RefusedError: No room, or no descriptor; nothing of it stays and the log works on.
            LogPoisonedError: The disk failed, now or before.
        """
        await self._jobs.written()
        self._context.check_usable()
        assert entries
        assert entries[0].index == self.dirty_index + 1 == self.pending_index + 1
        assert entries[0].term >= self.last_term
        await self._appender.append(entries)

    def configure(self, options: LogOptions) -> None:
        """Take other bounds of segments from the next append on; what is in memory keeps its own."""
        self._appender.configure(options)

    def keep_for_readers(self, *, is_kept: bool) -> None:
        """Keep more than the newest entries in memory, as far as `CacheBudgets.read` goes; or do not any more."""
        given_up = self._read_cache.keep(is_kept=is_kept)
        if given_up:
            self._jobs.spawn(free(given_up), name="free")

    # -- flush --------------------------------------------------------------------------------------------------

    async def flush(self) -> Index:
        """Make durable what was written before the call; return `flushed_index`.

        One fsync runs at a time; whoever's data was written after it began waits for the next. An fsync that
        crosses a truncation proves nothing about what remains and is repeated.

        Raises:
            LogPoisonedError: An fsync failed, now or before: what is on disk is unknown for ever.
        """
        target, truncations = self.dirty_index, self.truncations
        while self.flushed_index < target:
            self._context.check_usable()
            await self._flusher.fsync()
            if self.truncations != truncations:
                target, truncations = min(target, self.dirty_index), self.truncations
        self._context.check_usable()
        return self.flushed_index

    # -- truncate -----------------------------------------------------------------------------------------------

    async def truncate(self, first_removed: Index, on_cut: Callable[[], object] = lambda: None) -> None:
        """Remove the entries from `first_removed` on.

        The place to cut is looked up first; then all positions move in one step, before anything is removed. A
        caller that is cancelled before that step has removed nothing; afterwards the truncation goes on.

        Args:
            first_removed: Within the log.
            on_cut: Called in that step.

        Raises:
            LogPoisonedError: The disk failed, now or before, or the log is damaged where it is to be cut.
        """
        await self._jobs.written()
        self._context.check_usable()
        assert self.start_index <= first_removed <= self.dirty_index
        assert self.pending_index == self.dirty_index
        cut, rows = await self._truncation.locate(self._segments.split(first_removed)[0], first_removed)
        await self._jobs.written()
        self._context.check_usable()
        before = self._segments.size_bytes
        # Looked up again: a saved snapshot may have removed segments at the beginning.
        last, removed = self._segments.cut_end(first_removed, cut, rows)
        next_offset = cut.base_offset if cut is not None else removed[0].base_offset
        self._tail.cut(first_removed)
        self._read_cache.cut(first_removed)
        self.on_truncated(Index(first_removed - 1), next_offset, before - self._segments.size_bytes)
        on_cut()
        await self._jobs.write(lambda: self._truncation.carry_out(removed, last, cut))

    # -- start and snapshots ------------------------------------------------------------------------------------

    def pop_snapshot(self) -> Snapshot | None:
        """Return the snapshot that was found at the open; only once, and not after a newer one was written."""
        return self._snapshots.pop_found()

    async def save_snapshot(self, snapshot: Snapshot) -> None:
        """Make a snapshot durable, then delete the segments wholly below its start.

        `advance_start` came first. One that is older than the durable one is not written. A cancelled caller does
        not stop it; calls take their turns.

        Raises:
            RefusedError: Nothing has changed: no room, or no descriptor; try again later.
            SnapshotTooLargeError: Nothing has changed; try again when the state is smaller.
            LogPoisonedError: The disk failed, now or before.
        """
        assert (snapshot.start.index, snapshot.start.offset) <= (self.start_index, self.start_offset)
        await self._snapshots.save(snapshot)

    async def install(self, snapshot: Snapshot) -> bool:
        """Take over the start of a snapshot from the leader; return False if this log starts further on already.

        A log that `holds_entry_before` that start is kept. Otherwise all entries go, in one step with the positions,
        once the snapshot is durable: the log is empty at the start.

        Raises:
            RefusedError: Nothing has changed: no room, or no descriptor.
            LogPoisonedError: The disk failed, now or before.
            CorruptLogError: The snapshot contradicts the entries of this log.
        """
        await self._jobs.written()
        self._context.check_usable()
        assert self.pending_index == self.dirty_index
        start = snapshot.start
        if (start.index, start.offset) < (self.start_index, self.start_offset):
            return False
        if self.holds_entry_before(start):
            if start.prev_index > self.flushed_index:
                await self.flush()
            self.advance_start(start)
            await self.save_snapshot(snapshot)
        else:
            await self._snapshots.install(snapshot)
        return True

    async def raise_compacted(self, index: Index) -> None:
        """Let `compacted_index` be `index` at least; it is durable when this returns.

        Raises:
            RefusedError: No room, or no descriptor; try again later.
            LogPoisonedError: The disk failed, now or before.
        """
        await self._snapshots.raise_compacted(index)

    async def forget_damaged(self) -> None:
        """Delete the copies of damaged files: the replica is whole again.

        Raises:
            LogPoisonedError: The disk failed, now or before.
        """
        await self._snapshots.forget_damaged()
        self.has_damaged_copies = False

    # -- read ---------------------------------------------------------------------------------------------------

    async def read(self, first: Index, max_bytes: int, last: Index | None = None) -> list[Entry]:
        """Return entries from `first` up to `last` (default: the end), checksums checked.

        At least one if `first` exists, then as long as `max_bytes` is not exceeded; none if `first` > `last`.

        Raises:
            LogTruncatedError: `first` is below the start of the log.
            CorruptLogError: Damage on disk, or a disk that cannot be read; nothing bad is returned.
            RefusedError: The disk does not answer, or there is no descriptor; ask again later.
        """
        return await self.reader.read(first, max_bytes, last)

    def recent(self, first: Index, max_bytes: int) -> list[Entry] | None:
        """Return entries from `first` on, at least one, as far as `max_bytes` and memory go; None: not in memory."""
        return self._tail.read(first, self.dirty_index, max_bytes)

    # -- end ----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Flush if possible, wait for what is in flight, close the files. Idempotent."""
        if not self._jobs.is_closing:
            await self._jobs.written()
            if not self.is_poisoned:
                try:
                    await self.flush()
                except StorageError as error:
                    self.health.logger.error("the last flush failed: %s", error)
        await self._settle()

    async def remove(self) -> None:
        """Close without a flush, and delete the directory durably.

        Raises:
            LogPoisonedError: The disk refused; what is left is refused by name at the next start.
        """
        await self._settle()
        files, directory = self._context.files, self._context.directory
        try:
            await self._context.env.workers.run(Pool.APPEND, lambda: remove_log_directory(files, directory))
        except OSError as error:
            raise self.health.poisoned(f"cannot be removed: {reason_of(error)}") from error

    async def _settle(self) -> None:
        await self._flusher.idle()
        await self._jobs.close()
        self._segments.close()
        self.reader.forget_all()
        self._tail.cut(NO_INDEX)
        await free(self._read_cache.keep(is_kept=False))
