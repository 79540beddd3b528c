"""Index files of closed segments, written in the background, oldest first, once their segments are durable."""

from collections.abc import Callable

from model.error_text import reason_of
from runtime.workers import Pool
from storage.errors import StorageError
from storage.index_file import (
    FORMAT_VERSION,
    FORMAT_WITHOUT_ROWS,
    IndexRecord,
    encode_index,
    index_path,
    write_index_file,
)
from storage.log_context import LogContext
from storage.segment import Segment
from storage.segment_index import TermStart


class SegmentIndexer:
    """One per log."""

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._is_running = False

    def start(self) -> None:
        """Write what can be written; a failure costs a scan at the next start."""
        if not self._is_running and self._next() is not None:
            self._is_running = True
            self._context.jobs.spawn(self._run(), name="index")

    def _next(self) -> Segment | None:
        return self._context.segments.next_due(self._context.positions.flushed_index)

    async def _run(self) -> None:
        jobs, health = self._context.jobs, self._context.health
        try:
            while self._next() is not None:
                await jobs.written()
                if jobs.is_closing or health.is_poisoned:
                    break
                await jobs.write(self._write)
        except StorageError as error:
            health.logger.warning("no index file is written any more: %s", error)
        finally:
            self._is_running = False

    async def _write(self) -> None:
        segment = self._next()
        if segment is None:
            return
        self._context.segments.on_index_begun(segment)
        is_written = await self._context.env.workers.run(Pool.APPEND, self._job(segment))
        if is_written:
            self._context.segments.on_index_written(segment)

    def _job(self, segment: Segment) -> Callable[[], bool]:
        files, health = self._context.files, self._context.health
        path, record, rows = index_path(segment.path), self._record(segment), segment.rows

        def write() -> bool:
            # They do not change any more, and there may be some hundred thousand: that is not for the loop.
            content = encode_index(record if rows is None else record.with_rows(rows.columns()))
            try:
                write_index_file(files, path, content)
            except OSError as error:
                health.logger.warning("index file %s was not written: %s", path, reason_of(error))
                return False
            return True

        return write

    def _record(self, segment: Segment) -> IndexRecord:
        # It witnesses that everything in the segment was fsynced (RFC 0002, I3).
        positions = self._context.positions
        assert segment.last_index <= positions.flushed_index
        assert segment.closed_ms is not None
        # Its rows are in memory until a file has them, and no file had them so far.
        assert segment.rows is not None or not segment.has_rows
        first = TermStart(segment.base_index, segment.term, segment.base_offset)
        return IndexRecord(
            FORMAT_VERSION if segment.cleaned_to else FORMAT_WITHOUT_ROWS,
            self._context.group,
            segment.base_index,
            segment.size,
            segment.last_index,
            self._context.segments.after(segment).base_offset,
            segment.index.max_timestamp,
            segment.created_ms,
            segment.closed_ms,
            segment.data_term,
            [first, *positions.terms_within(segment.base_index, segment.last_index)],
            *segment.index.columns(),
            cleaned_to=segment.cleaned_to,
            cleaned_times=segment.cleaned_times,
            delete_bytes=segment.delete_bytes,
        )
