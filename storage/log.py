"""The log of one replica: append, flush, truncate, read; positions by index, offset and timestamp (RFC 0002).

    start_index - 1 <= flushed_index <= last_index <= pending_index

The owner (raft's op_lock) never overlaps an append or a truncation with another; flushes and reads overlap with all.
Every property is consistent with the others whenever the loop runs: positions move in synchronous steps.
"""

import asyncio
import contextlib
import errno
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from model.ids import Index, Offset, Term
from runtime.environment import Environment
from runtime.files import FileSystem
from runtime.gate import Gate
from runtime.workers import Pool
from storage.entry import Entry, EntryKind, pack_header
from storage.errors import CorruptLogError, DiskFullError, LogPoisonedError, LogTruncatedError, StorageError
from storage.log_directory import claim_log_directory, remove_log_directory
from storage.log_recovery import LogRecovery, RecoveredLog, index_path
from storage.options import LogIdentity, LogOptions
from storage.segment import Segment, SegmentView, max_timestamp_of, read_run, scan, segment_name
from storage.segment_index import FORMAT_VERSION, IndexRecord, SegmentIndex, TermStart, encode_index
from storage.segment_writer import SegmentPart, cut_back, persist_index, write_parts
from storage.tail_cache import TailCache

_logger = logging.getLogger("storage")

T = TypeVar("T")

# How many end offsets below the mark's floor are kept before the list is trimmed.
_MARKS_SLACK = 4096


class Log:
    """See the module. Made by `open`, ended by `close` or `remove`."""

    def __init__(
        self, env: Environment, directory: str, identity: LogIdentity, options: LogOptions, recovered: RecoveredLog
    ) -> None:
        self._env = env
        self._directory = directory
        self._identity = identity
        self._options = options
        self._segments = recovered.segments
        self._terms = recovered.terms
        self.start_index = Index(1)
        self.start_offset = Offset(0)
        self.last_index = recovered.last_index
        self.pending_index = recovered.last_index
        self.pending_term = self._terms[-1].term if self._terms else Term(0)
        self.flushed_index = recovered.last_index
        self.next_offset = recovered.next_offset
        self.unflushed_bytes = 0
        self.truncations = 0
        self._poison: StorageError | None = None
        # End offsets of the entries from _marks_base on.
        self._marks_base = recovered.last_index
        self._marks: list[Offset] = [recovered.next_offset]
        self._tail = TailCache(options.tail_cache_bytes)
        self._dirty: list[Segment] = []
        # Files of truncated segments stay open while a flush or a read may still use their descriptors.
        self._uses: dict[asyncio.Future[None], None] = {}
        self._retired: list[Segment] = []
        self._flush: asyncio.Future[None] | None = None
        self._write: asyncio.Future[None] | None = None
        self._gate = Gate(f"log {identity.group}")

    @classmethod
    async def open(cls, env: Environment, directory: str, identity: LogIdentity, options: LogOptions) -> "Log":
        """Open the log in `directory`, making it if it does not exist, and recover it from a crash.

        Raises:
            ForeignDirectoryError: It belongs to another group, data directory or format; nothing was touched.
            CorruptLogError: Durable bytes are damaged; nothing was touched.
            LogPoisonedError: The disk refused.
        """

        def recover() -> RecoveredLog:
            claim_log_directory(env.files, directory, identity)
            return LogRecovery(env.files, directory, options, env.wall_clock.now_ms()).run()

        try:
            recovered = await env.workers.run(Pool.APPEND, recover)
        except OSError as error:
            raise LogPoisonedError(f"{directory}: {error}") from error
        if recovered.cut_bytes:
            _logger.warning(
                "[%s] cut a torn tail: the log ends at %d after the crash", identity.group, recovered.last_index
            )
        return cls(env, directory, identity, options, recovered)

    # -- positions ----------------------------------------------------------------------------------------------

    @property
    def last_term(self) -> Term:
        """Term of the last index, 0 if the log is empty."""
        return self._terms[-1].term if self._terms else Term(0)

    @property
    def is_poisoned(self) -> bool:
        """A write or an fsync failed: nothing works any more but reading."""
        return self._poison is not None

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    def term_at(self, index: Index) -> Term:
        """Return the term of an entry in [start_index - 1, last_index]; 0 at index 0.

        Raises:
            LogTruncatedError: The index is outside.
        """
        if not self.start_index - 1 <= index <= self.last_index:
            raise LogTruncatedError(f"index {index} is not in [{self.start_index - 1}, {self.last_index}]")
        at = bisect_right(self._terms, index, key=lambda start: start.first_index) - 1
        return self._terms[at].term if at >= 0 else Term(0)

    def epoch_end(self, term: Term) -> tuple[Term, Offset]:
        """Return the largest term at or below `term`, and the offset at which the next larger one begins."""
        at = bisect_right(self._terms, term, key=lambda start: start.term) - 1
        if at < 0:
            return Term(0), self.start_offset
        end = self._terms[at + 1].base_offset if at + 1 < len(self._terms) else self.next_offset
        return self._terms[at].term, end

    def term_of_offset(self, offset: Offset) -> Term:
        """Return the term in which the record at `offset` was written; past the end the last term."""
        at = bisect_right(self._terms, offset, key=lambda start: start.base_offset) - 1
        return self._terms[at].term if at >= 0 else Term(0)

    def end_offset(self, index: Index) -> Offset | None:
        """Return the offset after an entry, from memory; None if it is older than what memory holds."""
        if index == self.start_index - 1:
            return self.start_offset
        at = index - self._marks_base
        return self._marks[at] if 0 <= at < len(self._marks) else None

    async def locate_end_offset(self, index: Index) -> Offset:
        """Return the offset after an entry in [start_index - 1, last_index], from the segments if need be."""
        known = self.end_offset(index)
        if known is not None:
            return known
        return (await self.read(index, 1, index))[0].end_offset

    def forget_marks(self, up_to: Index) -> None:
        """`end_offset` will be asked for nothing below `up_to` any more."""
        excess = min(up_to, self.last_index) - self._marks_base
        if excess > _MARKS_SLACK:
            del self._marks[:excess]
            self._marks_base = Index(self._marks_base + excess)

    # -- append -------------------------------------------------------------------------------------------------

    async def append(self, entries: Sequence[Entry]) -> None:
        """Write entries that follow `last_index`; not durable before a flush.

        `pending_index` moves at once, `last_index` when they are written. A cancelled caller does not stop the
        write: its effect arrives all the same, and the next append waits for it.

        Raises:
            DiskFullError: No room; nothing of it stays and the log works on.
            LogPoisonedError: The disk failed, now or before.
        """
        await self._settled_write()
        self._check_usable()
        assert entries
        assert entries[0].index == self.last_index + 1 == self.pending_index + 1
        assert entries[0].term >= self.last_term
        parts = self._plan(entries)
        self.pending_index, self.pending_term = entries[-1].index, entries[-1].term
        await self._exclusively(lambda: self._append(entries, parts))

    def _plan(self, entries: Sequence[Entry]) -> list[SegmentPart]:
        """Spread entries over the active segment and, where the roll rule says so, new ones."""
        parts: list[SegmentPart] = []
        now_ms = self._env.wall_clock.now_ms()
        part = SegmentPart.at_end_of(self._segments[-1]) if self._segments else None
        for entry in entries:
            if part is None or self._must_roll(part, entry, now_ms):
                path = f"{self._directory}/{segment_name(entry.index, entry.term)}"
                part = SegmentPart.new(path, entry, now_ms)
                parts.append(part)
            elif not parts:
                parts.append(part)
            part.add(entry, pack_header(entry, self.flushed_index))
        return parts

    def _must_roll(self, part: SegmentPart, entry: Entry, now_ms: int) -> bool:
        if part.size == 0:
            return False
        if part.size + entry.size > self._options.segment_bytes:
            return True
        if now_ms - part.created_ms > self._options.segment_ms:
            return True
        # A term that brings data begins a segment: a leader change is visible in the directory.
        return entry.kind is EntryKind.DATA and 0 < part.data_term < entry.term

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
            if not self._terms or entry.term > self._terms[-1].term:
                self._terms.append(TermStart(entry.index, entry.term, entry.base_offset))
            self._tail.push(entry)
            self._marks.append(entry.end_offset)
        self.last_index, self.next_offset = entries[-1].index, entries[-1].end_offset
        self._check_positions()

    async def _undo(self, parts: list[SegmentPart], error: OSError) -> None:
        """Remove what a failed append may have left; only a full disk leaves a usable log."""
        files, directory = self._env.files, self._directory
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise self._poisoned(f"write failed: {error}") from error
        try:
            await self._env.workers.run(Pool.APPEND, lambda: cut_back(files, directory, parts))
        except OSError as second:
            raise self._poisoned(f"a partial write cannot be undone: {second}") from second
        self.pending_index, self.pending_term = self.last_index, self.last_term

    def _take(self, part: SegmentPart) -> None:
        """The part is written: it belongs to the log now."""
        if part.segment is None:
            assert part.file is not None
            index = SegmentIndex(self._options.index_interval_bytes)
            first = part.entries[0]
            part.segment = Segment(
                part.path,
                first.index,
                first.base_offset,
                first.term,
                part.file,
                index,
                part.created_ms,
                Index(first.index - 1),
            )
            self._segments.append(part.segment)
            _logger.info("[%s] segment %s begins", self._identity.group, part.path.rpartition("/")[2])
        for entry in part.entries:
            part.segment.note(entry)
            self.unflushed_bytes += entry.size
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
                self._gate.spawn(self._run_flush(self._flush), name="flush")
            await asyncio.shield(self._flush)
            if self.truncations != truncations:
                target, truncations = min(target, self.last_index), self.truncations
        self._check_usable()
        return self.flushed_index

    async def _run_flush(self, done: asyncio.Future[None]) -> None:
        # Captured before the await: only what is written now is covered.
        target, covered, truncations = self.last_index, self.unflushed_bytes, self.truncations
        segments, self._dirty = self._dirty, []
        try:
            await self._using_files(Pool.FSYNC, lambda: _fsync_all(segments))
        except OSError as error:
            self._flush = None
            self._poisoned(f"fsync failed: {error}")
            done.set_result(None)
            return
        self._flush = None
        if truncations == self.truncations:
            self.flushed_index = max(self.flushed_index, target)
            self.unflushed_bytes -= covered
            self._check_positions()
            self._persist_indexes(segments)
        else:
            self._dirty = [s for s in segments if s in self._segments and s not in self._dirty] + self._dirty
        done.set_result(None)

    def _persist_indexes(self, segments: list[Segment]) -> None:
        """Closed segments that are durable now get their index file; a failure costs a scan at the next start."""
        for segment in segments:
            if segment in self._segments[:-1]:
                self._gate.spawn(self._persist_index(segment, self.truncations), name="index")

    async def _persist_index(self, segment: Segment, truncations: int) -> None:
        content = encode_index(self._index_record(segment))
        files, path = self._env.files, index_path(segment.path)
        try:
            await self._settled_write()
            if truncations == self.truncations:
                await self._exclusively(
                    lambda: self._env.workers.run(Pool.APPEND, lambda: persist_index(files, path, content))
                )
        except OSError as error:
            _logger.warning("[%s] index %s was not written: %s", self._identity.group, path, error)

    def _index_record(self, segment: Segment) -> IndexRecord:
        terms: list[tuple[int, int, int]] = [
            (start.first_index, start.term, start.base_offset)
            for start in self._terms
            if segment.base_index <= start.first_index <= segment.last_index
        ]
        if not terms or terms[0][0] > segment.base_index:
            terms.insert(0, (segment.base_index, self.term_at(segment.base_index), segment.base_offset))
        following = self._segments[self._segments.index(segment) + 1]
        columns = segment.index.columns()
        return IndexRecord(
            FORMAT_VERSION,
            segment.base_index,
            segment.size,
            segment.last_index,
            following.base_offset,
            segment.index.max_timestamp,
            segment.last_index,
            terms,
            *columns,
        )

    # -- truncate -----------------------------------------------------------------------------------------------

    async def truncate(self, first_removed: Index) -> None:
        """Remove the entries from `first_removed` on. Positions move before the first await.

        Raises:
            LogPoisonedError: The disk failed, now or before.
        """
        await self._settled_write()
        self._check_usable()
        assert self.start_index <= first_removed <= self.last_index
        assert self.pending_index == self.last_index
        removed = [segment for segment in self._segments if segment.base_index >= first_removed]
        kept_offset = self.end_offset(Index(first_removed - 1))
        self.truncations += 1
        self._tail.cut(first_removed)
        while self._terms and self._terms[-1].first_index >= first_removed:
            self._terms.pop()
        self.last_index = self.pending_index = Index(first_removed - 1)
        self.pending_term = self.last_term
        self.flushed_index = min(self.flushed_index, self.last_index)
        del self._marks[max(0, first_removed - self._marks_base) :]
        if kept_offset is not None:
            self.next_offset = kept_offset
        self._segments = self._segments[: len(self._segments) - len(removed)]
        self._dirty = [segment for segment in self._dirty if segment not in removed]
        await self._exclusively(lambda: self._truncate(first_removed, removed))

    async def _truncate(self, first_removed: Index, removed: list[Segment]) -> None:
        last = self._segments[-1] if self._segments else None
        files, directory = self._env.files, self._directory

        def cut() -> tuple[int, Offset, int] | None:
            for segment in reversed(removed):
                if files.exists(index_path(segment.path)):
                    files.unlink(index_path(segment.path))
                files.unlink(segment.path)
                files.fsync_dir(directory)
            return None if last is None else _cut_segment(files, directory, last, first_removed)

        try:
            found = await self._env.workers.run(Pool.APPEND, cut)
        except OSError as error:
            raise self._poisoned(f"truncation failed: {error}") from error
        for segment in removed:
            self._retire(segment)
            _logger.info("[%s] segment %s is truncated away", self._identity.group, segment.path.rpartition("/")[2])
        if found is not None:
            assert last is not None
            size, self.next_offset, max_timestamp = found
            last.index.cut(size, max_timestamp)
            last.size, last.last_index = size, self.last_index
        elif last is None:
            self.next_offset = self.start_offset
        else:
            self.next_offset = await self._end_of(last)
        if not self._marks:
            self._marks_base, self._marks = self.last_index, [self.next_offset]
        self.unflushed_bytes = sum(segment.size for segment in self._dirty) if self._dirty else 0
        self._check_positions()

    async def _end_of(self, segment: Segment) -> Offset:
        views = [segment.view(segment.index.position_of_index(segment.last_index))]
        last = segment.last_index
        run = await self._using_files(Pool.READ, lambda: read_run(views, last, last, 1))
        return run[0].end_offset

    # -- read ---------------------------------------------------------------------------------------------------

    async def read(self, first: Index, max_bytes: int, last: Index | None = None) -> list[Entry]:
        """Return entries from `first` up to `last` (default: the end), checksums checked.

        At least one if `first` exists, then as long as `max_bytes` is not exceeded; none if `first` > `last`.

        Raises:
            LogTruncatedError: `first` is below the start of the log.
            CorruptLogError: Damage on disk; nothing bad is returned.
        """
        if first < self.start_index:
            raise LogTruncatedError(f"entry {first} is below the start of the log, {self.start_index}")
        while True:
            end = self.last_index if last is None else min(last, self.last_index)
            if first > end:
                return []
            run = self._tail.read(first, end, max_bytes)
            if run is not None:
                return run
            truncations = self.truncations
            views = self._views_from(lambda segment: segment.last_index >= first, first)
            try:
                found = await self._using_files(Pool.READ, partial(read_run, views, first, end, max_bytes))
            except (StorageError, OSError):
                # A truncation meanwhile may have pulled the file away; then the answer is in the shorter log.
                if truncations == self.truncations:
                    raise
                continue
            # A truncation meanwhile may have replaced what was read.
            if truncations == self.truncations:
                return found

    def _views_from(self, wanted: Callable[[Segment], bool], first: Index) -> list[SegmentView]:
        views = []
        for segment in self._segments:
            if wanted(segment) and segment.size:
                at = segment.index.position_of_index(first) if segment.base_index <= first else 0
                views.append(segment.view(at))
        return views

    async def index_of_offset(self, offset: Offset) -> Index:
        """Return the entry that holds the record at `offset`, or the first one after it; last_index + 1 if none."""
        if offset >= self.next_offset:
            return Index(self.last_index + 1)
        cached = self._tail.index_of_offset(offset)
        if cached is not None:
            return cached
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        segment = self._segments[max(at, 0)]
        view = segment.view(segment.index.position_of_offset(offset))

        def find() -> Index:
            for _, parsed in scan(view, 64 * 1024):
                if parsed.entry.record_count and parsed.entry.end_offset > offset:
                    return parsed.entry.index
            return Index(segment.last_index + 1)

        return await self._using_files(Pool.READ, find)

    async def offset_of_timestamp(self, timestamp_ms: int, last: Index) -> tuple[Offset, int, Index] | None:
        """Return (base offset, max timestamp, index) of the first batch up to `last` that reaches `timestamp_ms`."""
        for segment in list(self._segments):
            if segment.index.max_timestamp < timestamp_ms or segment.base_index > last:
                continue
            view = segment.view(segment.index.position_of_timestamp(timestamp_ms))

            def find(view: SegmentView = view) -> tuple[Offset, int, Index] | None:
                return _first_at(view, timestamp_ms, last)

            hit = await self._using_files(Pool.READ, find)
            if hit is not None:
                return hit
        return None

    async def max_timestamp(self, last: Index) -> int | None:
        """Return the largest timestamp of a batch up to `last`, None if there is no batch."""
        best = -1
        for segment in list(self._segments):
            if segment.last_index <= last:
                best = max(best, segment.index.max_timestamp)
            elif segment.base_index <= last:
                best = max(best, await self._max_timestamp_in(segment, last))
        return best if best >= 0 else None

    async def _max_timestamp_in(self, segment: Segment, last: Index) -> int:
        view = segment.view()

        def find() -> int:
            found = -1
            for _, parsed in scan(view):
                if parsed.entry.index > last:
                    break
                found = max(found, max_timestamp_of(parsed.entry))
            return found

        return await self._using_files(Pool.READ, find)

    # -- end ----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Flush if possible, wait for what is in flight, close the files. Idempotent."""
        await self._settled_write()
        if not self.is_poisoned:
            try:
                await self.flush()
            except StorageError as error:
                _logger.error("[%s] the last flush failed: %s", self._identity.group, error)
        await self._settled()
        for segment in self._segments:
            segment.file.close()
        self._segments = []

    async def remove(self) -> None:
        """Close without a flush, and delete the directory durably.

        Raises:
            LogPoisonedError: The disk refused; what is left is refused by name at the next start.
        """
        await self._settled()
        for segment in self._segments:
            segment.file.close()
        self._segments = []
        files, directory = self._env.files, self._directory
        try:
            await self._env.workers.run(Pool.APPEND, lambda: remove_log_directory(files, directory))
        except OSError as error:
            raise self._poisoned(f"cannot be removed: {error}") from error

    async def _settled(self) -> None:
        await self._settled_write()
        while self._flush is not None:
            await asyncio.shield(self._flush)
        while self._uses:
            await asyncio.shield(next(iter(self._uses)))
        await self._gate.close()

    # -- files --------------------------------------------------------------------------------------------------

    async def _using_files(self, pool: Pool, job: Callable[[], T]) -> T:
        """Run a job that reads or fsyncs segment files; none of them is closed before it has ended."""
        loop = asyncio.get_running_loop()
        self._check_open()
        answer: asyncio.Future[T] = loop.create_future()
        answer.add_done_callback(lambda future: future.exception())
        use: asyncio.Future[None] = loop.create_future()
        self._uses[use] = None
        # A task of its own: a caller that is cancelled does not end the job.
        self._gate.spawn(self._use_files(pool, job, answer, use), name=pool.value)
        return await asyncio.shield(answer)

    async def _use_files(
        self, pool: Pool, job: Callable[[], T], answer: asyncio.Future[T], use: asyncio.Future[None]
    ) -> None:
        try:
            result = await self._env.workers.run(pool, job)
        except (StorageError, OSError) as error:
            answer.set_exception(error)
        else:
            answer.set_result(result)
        del self._uses[use]
        use.set_result(None)
        self._close_retired()

    def _retire(self, segment: Segment) -> None:
        self._retired.append(segment)
        self._close_retired()

    def _close_retired(self) -> None:
        if not self._uses:
            for segment in self._retired:
                segment.file.close()
            self._retired = []

    # -- shared -------------------------------------------------------------------------------------------------

    async def _exclusively(self, effect: Callable[[], Awaitable[None]]) -> None:
        """Run `effect` to its end even if the caller is cancelled; the next write waits for it."""
        self._check_open()
        done = self._write = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda future: future.exception())
        self._gate.spawn(self._complete(effect, done), name="write")
        await asyncio.shield(done)

    async def _complete(self, effect: Callable[[], Awaitable[None]], done: asyncio.Future[None]) -> None:
        try:
            await effect()
        except (StorageError, OSError) as error:
            self._write = None
            done.set_exception(error)
        else:
            self._write = None
            done.set_result(None)

    async def _settled_write(self) -> None:
        while self._write is not None:
            with contextlib.suppress(StorageError, OSError):  # Its own caller is told.
                await asyncio.shield(self._write)

    def _check_open(self) -> None:
        if self._gate.is_closed:
            raise StorageError(f"the log of {self._identity.group} is closed")

    def _check_usable(self) -> None:
        self._check_open()
        if self._poison is not None:
            raise self._poison

    def _poisoned(self, why: str) -> LogPoisonedError:
        error = LogPoisonedError(f"{self._identity.group}: {why}; this replica stops")
        if self._poison is None:
            self._poison = error
            _logger.error("[%s] %s", self._identity.group, error)
        return error

    def _check_positions(self) -> None:
        assert self.start_index - 1 <= self.flushed_index <= self.last_index <= self.pending_index
        assert self._marks_base + len(self._marks) - 1 == self.last_index


def _fsync_all(segments: list[Segment]) -> None:
    for segment in segments:
        segment.file.fsync()


def _first_at(view: SegmentView, timestamp_ms: int, last: Index) -> tuple[Offset, int, Index] | None:
    for _, parsed in scan(view, 64 * 1024):
        entry = parsed.entry
        if entry.index > last:
            return None
        largest = max_timestamp_of(entry)
        if largest >= timestamp_ms:
            return entry.base_offset, largest, entry.index
    return None


def _cut_segment(
    files: FileSystem, directory: str, segment: Segment, first_removed: Index
) -> tuple[int, Offset, int] | None:
    """Cut the entries from `first_removed` on off a file; return its new size, end offset and largest timestamp.

    None where the segment ends before `first_removed`: nothing to cut.
    """
    if files.exists(index_path(segment.path)):
        # It becomes the active segment again: its index file would soon be wrong.
        files.unlink(index_path(segment.path))
        files.fsync_dir(directory)
    if segment.last_index < first_removed:
        return None
    largest = -1
    for position, parsed in scan(segment.view()):
        if parsed.entry.index == first_removed:
            segment.file.truncate(position)
            segment.file.fsync()
            return position, parsed.entry.base_offset, largest
        largest = max(largest, max_timestamp_of(parsed.entry))
    raise CorruptLogError(f"{segment.path}: entry {first_removed} is not where it should be")
