"""The log of one replica: append, flush, truncate, read; positions by index, offset and timestamp (RFC 0002).

The owner (raft's op_lock) never overlaps an append or a truncation with another; flushes and reads overlap with all.
Every position is consistent with the others whenever the loop runs: they move in synchronous steps.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence

from model.ids import NO_INDEX, Index, Offset
from runtime.environment import Environment
from runtime.workers import Pool
from storage.entry import Entry
from storage.errors import CorruptLogError, DiskFullError, LogPoisonedError, StorageError
from storage.group_logger import GroupLogger
from storage.index_file import FORMAT_VERSION, IndexRecord, encode_index, index_path, write_index_file
from storage.log_directory import claim_log_directory, remove_log_directory
from storage.log_jobs import LogJobs
from storage.log_positions import LogPositions
from storage.log_reader import LogReader
from storage.log_recovery import LogRecovery, RecoveredLog
from storage.options import LogIdentity, LogOptions
from storage.segment import Cut, Segment, find_cut
from storage.segment_index import SegmentIndex, TermStart
from storage.segment_writer import SegmentPart, cut_back, plan_parts, remove_and_cut, write_parts
from storage.tail_cache import TailCache

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Log(LogPositions):
    """See the module. Made by `open`, ended by `close` or `remove`."""

    def __init__(
        self, env: Environment, directory: str, identity: LogIdentity, options: LogOptions, recovered: RecoveredLog
    ) -> None:
        super().__init__(recovered.terms, recovered.last_index, recovered.next_offset)
        self._env = env
        self._directory = directory
        self._group = identity.group
        # The owner may put one here that says more of the replica than its group.
        self.logger: logging.LoggerAdapter[logging.Logger] = GroupLogger(identity.group)
        # The owner is told once for each segment that a read finds damaged.
        self.on_damage: Callable[[CorruptLogError], None] = lambda _: None
        self._damaged: set[str | None] = set()
        self._options = options
        self._segments = recovered.segments
        self._tail = TailCache(options.tail_cache_bytes)
        self._jobs = LogJobs(env, identity.group)
        self._reader = LogReader(self, self._segments, self._tail, self._jobs, self._note_damage)
        self._poison: StorageError | None = None
        self._dirty: list[Segment] = []
        # Closed segments whose index file is still to be written, in order.
        self._unindexed = [segment for segment in self._segments[:-1] if not segment.has_index_file]
        self._flush: asyncio.Future[None] | None = None
        self._is_indexing = False

    @classmethod
    async def open(
        cls,
        env: Environment,
        directory: str,
        identity: LogIdentity,
        options: LogOptions,
        *,
        known_index: Index = NO_INDEX,
    ) -> "Log":
        """Open the log in `directory`, making it if it does not exist, and recover it from a crash.

        Args:
            env: The seams.
            directory: The replica's own.
            identity: Whose log it must be.
            options: Of its topic.
            known_index: The caller knows that the entries up to here were fsynced and never truncated.

        Raises:
            ForeignDirectoryError: It belongs to another group, data directory or format; nothing was touched.
            MismatchedLogError: It ends before `known_index`; nothing was touched.
            CorruptLogError: Durable bytes are damaged; nothing was touched.
            LogPoisonedError: The disk refused.
        """

        def recover() -> RecoveredLog:
            claim_log_directory(env.files, directory, identity)
            return LogRecovery(env.files, directory, options, env.wall_clock.now_ms(), known_index).run()

        try:
            recovered = await env.workers.run(Pool.APPEND, recover)
        except OSError as error:
            raise LogPoisonedError(f"{directory}: {error}") from error
        if recovered.damage is not None:
            GroupLogger(identity.group).warning(
                "a torn tail is cut, %d bytes, the log ends at %d: %s",
                recovered.cut_bytes,
                recovered.last_index,
                recovered.damage,
            )
        log = cls(env, directory, identity, options, recovered)
        log._index_closed_segments()
        return log

    @property
    def is_poisoned(self) -> bool:
        """A write or an fsync failed: nothing works any more but reading."""
        return self._poison is not None

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    # -- append -------------------------------------------------------------------------------------------------

    async def append(self, entries: Sequence[Entry]) -> None:
        """Write entries that follow `last_index`; not durable before a flush.

        `pending_index` moves at once, `last_index` when they are written. A cancelled caller does not stop the
        write: its effect arrives all the same, and the next append waits for it.

        Raises:
            DiskFullError: No room; nothing of it stays and the log works on.
            LogPoisonedError: The disk failed, now or before.
        """
        await self._jobs.written()
        self._check_usable()
        assert entries
        assert entries[0].index == self.last_index + 1 == self.pending_index + 1
        assert entries[0].term >= self.last_term
        active = self._segments[-1] if self._segments else None
        now_ms = self._env.wall_clock.now_ms()
        parts = plan_parts(self._directory, active, entries, self.flushed_index, self._options, now_ms)
        self._note_pending(entries)
        await self._jobs.write(lambda: self._append(entries, parts))

    def configure(self, options: LogOptions) -> None:
        """Take other bounds of segments from the next append on; what is in memory keeps its own."""
        self._options = options

    async def _append(self, entries: Sequence[Entry], parts: list[SegmentPart]) -> None:
        files, directory = self._env.files, self._directory
        try:
            await self._env.workers.run(Pool.APPEND, lambda: write_parts(files, directory, parts))
        except OSError as error:
            await self._undo(parts, error)
            raise DiskFullError(f"{self._directory}: {error}") from error
        for part in parts:
            self._take(part)
        for entry in entries:
            self._tail.push(entry)
        self._note_written(entries)

    async def _undo(self, parts: list[SegmentPart], error: OSError) -> None:
        """Remove what a failed append may have left; only a full disk leaves a usable log."""
        files, directory = self._env.files, self._directory
        if error.errno not in _DISK_FULL:
            raise self._poisoned(f"write failed: {error}") from error
        try:
            await self._env.workers.run(Pool.APPEND, lambda: cut_back(files, directory, parts))
        except OSError as second:
            raise self._poisoned(f"a partial write cannot be undone: {second}") from second
        self._forget_pending()

    def _take(self, part: SegmentPart) -> None:
        """The part is written: it belongs to the log now."""
        if part.segment is None:
            assert part.file is not None
            first = part.entries[0]
            part.segment = Segment(
                part.path,
                first.index,
                first.base_offset,
                first.term,
                part.file,
                SegmentIndex(self._options.index_interval_bytes),
                part.created_ms,
                Index(first.index - 1),
            )
            self._unindexed.extend(self._segments[-1:])
            self._segments.append(part.segment)
            self.logger.info("segment %s begins", part.path.rpartition("/")[2])
        for entry in part.entries:
            part.segment.note(entry)
        if part.segment not in self._dirty:
            self._dirty.append(part.segment)

    # -- flush --------------------------------------------------------------------------------------------------

    async def flush(self) -> Index:
        """Make durable what was written before the call; return `flushed_index`.

        One fsync runs at a time; whoever's data was written after it began waits for the next. An fsync that
        crosses a truncation proves nothing about what remains and is repeated.

        Raises:
            LogPoisonedError: An fsync failed, now or before: what is on disk is unknown for ever.
        """
        target, truncations = self.last_index, self.truncations
        while self.flushed_index < target:
            self._check_usable()
            if self._flush is None:
                self._flush = asyncio.get_running_loop().create_future()
                self._jobs.spawn(self._run_flush(self._flush), name="flush")
            await asyncio.shield(self._flush)
            if self.truncations != truncations:
                target, truncations = min(target, self.last_index), self.truncations
        self._check_usable()
        return self.flushed_index

    async def _run_flush(self, done: asyncio.Future[None]) -> None:
        # Captured before the await: only what is written now is covered.
        target, covered, truncations = self.last_index, self.unflushed_bytes, self.truncations
        segments = self._dirty[:]
        self._dirty.clear()
        try:
            await self._jobs.use(Pool.FSYNC, lambda: _fsync_all(segments))
        except OSError as error:
            self._poisoned(f"fsync failed: {error}")
        else:
            if truncations == self.truncations:
                self._note_flushed(target, covered)
                self._index_closed_segments()
            else:
                again = [segment for segment in segments if segment in self._segments and segment not in self._dirty]
                self._dirty[:0] = again
        self._flush = None
        done.set_result(None)

    # -- index files ----------------------------------------------------------------------------------------------

    def _index_closed_segments(self) -> None:
        """Closed segments that are durable get their index file; a failure costs a scan at the next start."""
        if not self._is_indexing and self._due_for_index() is not None:
            self._is_indexing = True
            self._jobs.spawn(self._write_index_files(), name="index")

    def _due_for_index(self) -> Segment | None:
        first = self._unindexed[0] if self._unindexed else None
        return first if first is not None and first.last_index <= self.flushed_index else None

    async def _write_index_files(self) -> None:
        while self._due_for_index() is not None:
            await self._jobs.written()
            if self._jobs.is_closing:
                break
            await self._jobs.write(self._write_index_file)
        self._is_indexing = False

    async def _write_index_file(self) -> None:
        segment = self._due_for_index()
        if segment is None:
            return
        del self._unindexed[0]
        files, path, content = self._env.files, index_path(segment.path), encode_index(self._index_record(segment))
        try:
            await self._env.workers.run(Pool.APPEND, lambda: write_index_file(files, path, content))
        except OSError as error:
            self.logger.warning("index file %s was not written: %s", path, error)

    def _index_record(self, segment: Segment) -> IndexRecord:
        # It witnesses that everything in the segment was fsynced (RFC 0002, I3).
        assert segment.last_index <= self.flushed_index
        terms = [start for start in self._terms if segment.base_index < start.first_index <= segment.last_index]
        first = TermStart(segment.base_index, self.term_at(segment.base_index), segment.base_offset)
        following = self._segments[self._segments.index(segment) + 1]
        return IndexRecord(
            FORMAT_VERSION,
            segment.base_index,
            segment.size,
            segment.last_index,
            following.base_offset,
            segment.index.max_timestamp,
            segment.created_ms,
            segment.data_term,
            [first, *terms],
            *segment.index.columns(),
        )

    # -- truncate -----------------------------------------------------------------------------------------------

    async def truncate(self, first_removed: Index) -> None:
        """Remove the entries from `first_removed` on.

        The place to cut is looked up first; then all positions move in one step, before anything is removed. A
        caller that is cancelled before that step has removed nothing; afterwards the truncation goes on.

        Raises:
            LogPoisonedError: The disk failed, now or before, or the log is damaged where it is to be cut.
        """
        await self._jobs.written()
        self._check_usable()
        assert self.start_index <= first_removed <= self.last_index
        assert self.pending_index == self.last_index
        kept = sum(segment.base_index < first_removed for segment in self._segments)
        last = self._segments[kept - 1] if kept else None
        cut = await self._locate_cut(last, first_removed)
        await self._jobs.written()
        self._check_usable()
        removed = self._segments[kept:]
        removed_bytes = sum(segment.size for segment in removed)
        next_offset = removed[0].base_offset if removed else self.next_offset
        if last is not None and cut is not None:
            removed_bytes += last.size - cut.position
            next_offset = Offset(cut.base_offset)
            last.cut(cut)
        del self._segments[kept:]
        self._unindexed = [segment for segment in self._unindexed if segment in self._segments[:-1]]
        self._dirty = [segment for segment in self._dirty if segment not in removed]
        self._tail.cut(first_removed)
        self._note_truncated(Index(first_removed - 1), next_offset, removed_bytes)
        await self._jobs.write(lambda: self._truncate(removed, last, None if cut is None else cut.position))

    async def _locate_cut(self, last: Segment | None, first_removed: Index) -> Cut | None:
        """Return where the last segment that stays is cut; None if it stays whole or none stays."""
        if last is None or last.last_index < first_removed:
            return None
        position, max_timestamp = last.index.max_timestamp_before(first_removed)
        view = last.view(position)
        try:
            return await self._jobs.use(Pool.READ, lambda: find_cut(view, first_removed, max_timestamp))
        except (CorruptLogError, OSError) as error:
            raise self._poisoned(f"cannot be truncated: {error}") from error

    async def _truncate(self, removed: list[Segment], last: Segment | None, position: int | None) -> None:
        files, directory = self._env.files, self._directory
        try:
            await self._env.workers.run(Pool.APPEND, lambda: remove_and_cut(files, directory, removed, last, position))
        except OSError as error:
            raise self._poisoned(f"truncation failed: {error}") from error
        finally:
            for segment in removed:
                self._jobs.retire(segment)
        for segment in removed:
            self.logger.info("segment %s is truncated away", segment.path.rpartition("/")[2])

    # -- read ---------------------------------------------------------------------------------------------------

    async def read(self, first: Index, max_bytes: int, last: Index | None = None) -> list[Entry]:
        """Return entries from `first` up to `last` (default: the end), checksums checked.

        At least one if `first` exists, then as long as `max_bytes` is not exceeded; none if `first` > `last`.

        Raises:
            LogTruncatedError: `first` is below the start of the log.
            CorruptLogError: Damage on disk, or a disk that cannot be read; nothing bad is returned.
        """
        return await self._reader.read(first, max_bytes, last)

    async def locate_end_offset(self, index: Index) -> Offset:
        """Return the offset after an entry in [start_index - 1, last_index], from the segments if need be."""
        known = self.end_offset(index)
        if known is not None:
            return known
        return (await self.read(index, 1, index))[0].end_offset

    async def index_of_offset(self, offset: Offset) -> Index:
        """Return the entry that holds the record at `offset`, or the first one after it; last_index + 1 if none."""
        return await self._reader.index_of_offset(offset)

    async def offset_of_timestamp(self, timestamp_ms: int, last: Index) -> tuple[Offset, int, Index] | None:
        """Return (base offset, max timestamp, index) of the first batch up to `last` that reaches `timestamp_ms`."""
        return await self._reader.offset_of_timestamp(timestamp_ms, last)

    async def max_timestamp(self, last: Index) -> int | None:
        """Return the largest timestamp of a batch up to `last`, None if there is no batch."""
        return await self._reader.max_timestamp(last)

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp in the newest segment that holds a batch, written batches only; -1 if there is none."""
        return next(
            (each.index.max_timestamp for each in reversed(self._segments) if each.index.max_timestamp >= 0), -1
        )

    def _note_damage(self, error: CorruptLogError) -> None:
        if error.path not in self._damaged:
            self._damaged.add(error.path)
            self.logger.error("a read found damage: %s", error)
            self.on_damage(error)

    # -- end ----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Flush if possible, wait for what is in flight, close the files. Idempotent."""
        if not self._jobs.is_closing:
            await self._jobs.written()
            if not self.is_poisoned:
                try:
                    await self.flush()
                except StorageError as error:
                    self.logger.error("the last flush failed: %s", error)
        await self._settle()

    async def remove(self) -> None:
        """Close without a flush, and delete the directory durably.

        Raises:
            LogPoisonedError: The disk refused; what is left is refused by name at the next start.
        """
        await self._settle()
        files, directory = self._env.files, self._directory
        try:
            await self._env.workers.run(Pool.APPEND, lambda: remove_log_directory(files, directory))
        except OSError as error:
            raise self._poisoned(f"cannot be removed: {error}") from error

    async def _settle(self) -> None:
        while self._flush is not None:
            await asyncio.shield(self._flush)
        await self._jobs.close()
        for segment in self._segments:
            segment.file.close()
        self._segments.clear()

    # -- shared -------------------------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        self._jobs.check_open()
        if self._poison is not None:
            raise self._poison

    def _poisoned(self, why: str) -> LogPoisonedError:
        error = LogPoisonedError(f"{self._group}: {why}; this replica stops")
        if self._poison is None:
            self._poison = error
            self.logger.error("%s", error)
        return error


def _fsync_all(segments: list[Segment]) -> None:
    for segment in segments:
        segment.file.fsync()
