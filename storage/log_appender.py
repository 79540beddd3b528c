"""Appends of one log: spread over segments, written by a worker, taken into the log in one step, or undone."""

from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from model.ids import Index
from runtime.environment import Environment
from runtime.open_files import NO_DESCRIPTORS, OpenFiles
from runtime.workers import Pool
from storage.entry import Entry
from storage.errors import DiskFullError, OpenFilesError
from storage.log_flusher import LogFlusher
from storage.log_health import LogHealth
from storage.log_jobs import LogJobs
from storage.log_positions import LogPositions
from storage.options import LogOptions
from storage.segment import Segment
from storage.segment_index import SegmentIndex
from storage.segment_indexer import SegmentIndexer
from storage.segment_writer import SegmentPart, cut_back, plan_parts, write_parts
from storage.snapshot_file import DISK_FULL
from storage.tail_cache import TailCache

# An append of so many bytes or fewer is written sooner than it is handed to a thread.
_QUICK_BYTES = 32 * 1024


class LogAppender:
    """One per log; `segments` is the log's own list."""

    def __init__(
        self,
        env: Environment,
        files: OpenFiles,
        directory: str,
        options: LogOptions,
        positions: LogPositions,
        segments: list[Segment],
        tail: TailCache,
        jobs: LogJobs,
        health: LogHealth,
        indexer: SegmentIndexer,
        flusher: LogFlusher,
    ) -> None:
        self._env = env
        self._files = files
        self._directory = directory
        self._options = options
        self._positions = positions
        self._segments = segments
        self._tail = tail
        self._jobs = jobs
        self._health = health
        self._indexer = indexer
        self._flusher = flusher

    def configure(self, options: LogOptions) -> None:
        """See `Log.configure`."""
        self._options = options

    async def append(self, entries: Sequence[Entry]) -> None:
        """See `Log.append`."""
        positions = self._positions
        await self._jobs.written()
        self._jobs.check_open()
        self._health.check()
        assert entries
        assert entries[0].index == positions.last_index + 1 == positions.pending_index + 1
        assert entries[0].term >= positions.last_term
        active = self._segments[-1] if self._segments else None
        now_ms = self._env.wall_clock.now_ms()
        parts = plan_parts(self._directory, active, entries, positions.flushed_index, self._options, now_ms)
        positions.note_pending(entries)
        if not await self._append_now(entries, parts):
            await self._jobs.write(lambda: self._append(entries, parts))

    async def _append_now(self, entries: Sequence[Entry], parts: list[SegmentPart]) -> bool:
        """Write without a thread where that is quick: little, and nothing to open. Return whether it was done."""
        [part, *others] = parts
        if others or part.file is None or not part.file.is_open or sum(map(len, part.buffers)) > _QUICK_BYTES:
            return False
        files, directory = self._files, self._directory
        try:
            is_written = self._env.workers.run_now(lambda: write_parts(files, directory, parts))
        except OSError as error:
            await self._jobs.write(partial(self._undo_and_raise, parts, error))
            raise AssertionError("it raises") from error
        if is_written:
            self._note(entries, parts)
        return is_written

    async def _append(self, entries: Sequence[Entry], parts: list[SegmentPart]) -> None:
        files, directory = self._files, self._directory
        try:
            await self._env.workers.run(Pool.APPEND, lambda: write_parts(files, directory, parts))
        except OSError as error:
            await self._undo_and_raise(parts, error)
        self._note(entries, parts)

    def _note(self, entries: Sequence[Entry], parts: list[SegmentPart]) -> None:
        for part in parts:
            self._take(part)
            part.release()
        for entry in entries:
            self._tail.push(entry)
        self._positions.note_written(entries)

    async def _undo_and_raise(self, parts: list[SegmentPart], error: OSError) -> NoReturn:
        """Remove what a failed append may have left; without room or a descriptor the log stays usable."""
        files, directory = self._files, self._directory
        try:
            if error.errno not in (*DISK_FULL, *NO_DESCRIPTORS):
                raise self._health.poisoned(f"write failed: {error}") from error
            await self._jobs.insist(Pool.APPEND, lambda: cut_back(files, directory, parts))
        except OSError as second:
            raise self._health.poisoned(f"a partial write cannot be undone: {second}") from second
        finally:
            for part in parts:
                part.release()
                if part.segment is None and part.file is not None:
                    part.file.close()
        self._positions.forget_pending()
        if error.errno in NO_DESCRIPTORS:
            raise OpenFilesError(f"{directory}: {error}: raise `ulimit -n`") from error
        raise DiskFullError(f"{directory}: {error}") from error

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
            part.file.set_active(True)
            for closed in self._segments[-1:]:
                closed.closed_ms = part.created_ms
                closed.file.set_active(False)
                self._indexer.note_closed([closed])
            self._segments.append(part.segment)
            self._health.logger.info("segment %s begins", part.segment.name)
        for entry in part.entries:
            part.segment.note(entry)
        self._flusher.note_written(part.segment)
