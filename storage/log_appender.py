"""Appends of one log: spread over segments, written by a worker, taken into the log in one step, or undone."""

from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from model.error_text import reason_of
from model.ids import Index
from runtime.open_files import NO_DESCRIPTORS
from runtime.workers import Pool
from storage.entry import Entry
from storage.errors import DiskFullError, OpenFilesError
from storage.log_context import LogContext
from storage.options import LogOptions
from storage.segment import Segment
from storage.segment_index import SegmentIndex
from storage.segment_writer import SegmentPart, cut_back, plan_parts, write_parts
from storage.snapshot_file import DISK_FULL

# An append of so many bytes or fewer is written sooner than it is handed to a thread.
_QUICK_BYTES = 32 * 1024


class LogAppender:
    """One per log."""

    def __init__(self, context: LogContext, options: LogOptions) -> None:
        self._context = context
        self._options = options

    def configure(self, options: LogOptions) -> None:
        """See `Log.configure`."""
        self._options = options

    async def append(self, entries: Sequence[Entry]) -> None:
        """Write entries for which `Log.append` has opened the way: no write is under way, and they come next."""
        context = self._context
        positions, now_ms = context.positions, context.env.wall_clock.now_ms()
        parts = plan_parts(
            context.directory, context.segments.active, entries, positions.flushed_index, self._options, now_ms
        )
        positions.on_pending(entries)
        if not await self._append_now(entries, parts):
            await context.jobs.write(lambda: self._append(entries, parts))

    async def _append_now(self, entries: Sequence[Entry], parts: list[SegmentPart]) -> bool:
        """Write without a thread where that is quick: little, and nothing to open. Return whether it was done."""
        [part, *others] = parts
        if others or part.file is None or not part.file.is_open or sum(map(len, part.buffers)) > _QUICK_BYTES:
            return False
        context = self._context

        def write() -> bool:
            is_written = context.env.workers.run_now(lambda: write_parts(context.files, context.directory, parts))
            if is_written:
                self._on_written(entries, parts)
            return is_written

        try:
            return context.jobs.write_here(write)
        except OSError as error:
            await context.jobs.write(partial(self._undo_and_raise, parts, error))
            raise AssertionError("it raises") from error

    async def _append(self, entries: Sequence[Entry], parts: list[SegmentPart]) -> None:
        files, directory = self._context.files, self._context.directory
        try:
            await self._context.env.workers.run(Pool.APPEND, lambda: write_parts(files, directory, parts))
        except OSError as error:
            await self._undo_and_raise(parts, error)
        self._on_written(entries, parts)

    def _on_written(self, entries: Sequence[Entry], parts: list[SegmentPart]) -> None:
        context = self._context
        for part in parts:
            self._adopt(part)
            part.release()
        for entry in entries:
            context.tail.push(entry)
        context.positions.on_written(entries)

    async def _undo_and_raise(self, parts: list[SegmentPart], error: OSError) -> NoReturn:
        """Remove what a failed append may have left; without room or a descriptor the log stays usable."""
        context = self._context
        files, directory = context.files, context.directory
        try:
            if error.errno not in (*DISK_FULL, *NO_DESCRIPTORS):
                raise context.health.poisoned(f"write failed: {reason_of(error)}") from error
            await context.jobs.insist(Pool.APPEND, lambda: cut_back(files, directory, parts))
        except OSError as second:
            raise context.health.poisoned(f"a partial write cannot be undone: {reason_of(second)}") from second
        finally:
            for part in parts:
                part.release()
                if part.segment is None and part.file is not None:
                    part.file.close()
        context.positions.forget_pending()
        if error.errno in NO_DESCRIPTORS:
            raise OpenFilesError(f"{directory}: {reason_of(error)}: raise `ulimit -n`") from error
        raise DiskFullError(f"{directory}: {reason_of(error)}") from error

    def _adopt(self, part: SegmentPart) -> None:
        """The part is written: it belongs to the log now."""
        context = self._context
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
            context.segments.begin(part.segment)
            context.health.logger.info("segment %s begins", part.segment.name)
        for entry in part.entries:
            part.segment.add(entry)
        part.check_written()
        context.segments.mark_dirty(part.segment)
