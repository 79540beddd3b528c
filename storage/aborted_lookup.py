"""Which aborted transactions a reader has to leave out of what it has read of one log (RFC 0021, 6)."""

from collections.abc import Callable

from model.ids import GroupId, Index, Offset
from runtime.files import FileSystem
from runtime.open_files import NO_DESCRIPTORS
from runtime.workers import Pool
from storage.aborted_rows import AbortedRow, AbortedRows, aborted_row
from storage.errors import CorruptLogError
from storage.index_file import IndexRecord, index_path, read_index_file
from storage.log_context import LogContext
from storage.segment import Segment, SegmentView, is_control, scan


class AbortedLookup:
    """One per log. Shares its segments, changes nothing but what is kept of them in memory."""

    def __init__(self, context: LogContext) -> None:
        self._context = context

    async def within(self, first: Index, begin: Offset, end: Offset) -> list[AbortedRow]:
        """Return the rows of transactions that began before `end` and have their markers at or behind `begin`.

        Those of all markers that are in the log when the call begins, in their order; perhaps some of later ones. It
        is for the caller to find out whether a segment has left the log meanwhile.

        Args:
            first: The entry that begins with, or holds, the record at `begin`; it is in the log.
            begin: Where what was read begins.
            end: Where it ends.

        Raises:
            CorruptLogError: A segment without a usable index file is damaged.
            RefusedError, OSError: As `LogJobs.read`.
        """
        found: list[AbortedRow] = []
        for segment in self._context.segments.holding(first):
            # Most often: no transaction was aborted here, or only later ones.
            if segment.lowest_first < end:
                found += (await self._rows_of(segment)).within(begin, end)
        return found

    async def _rows_of(self, segment: Segment) -> AbortedRows:
        rows = self._context.segments.rows_of(segment)
        if rows is None:
            rows = await self._context.jobs.read(rows_reader(self._context, segment))
            self._context.segments.keep_rows(segment, rows)
        return rows


async def all_rows_of(context: LogContext, segment: Segment) -> AbortedRows | None:
    """Return the rows of a segment that is about to be written to again, None if it has none.

    Raises:
        CorruptLogError: It has no usable index file, and is damaged.
        OSError: The disk cannot be read.
    """
    if not segment.has_rows:
        return None
    rows = context.segments.rows_of(segment)
    if rows is None:
        rows = await context.jobs.use_insisting(Pool.READ, rows_reader(context, segment))
    return rows


def rows_reader(context: LogContext, segment: Segment) -> Callable[[], AbortedRows]:
    """Return a job that reads the rows of a closed segment: from its index file, or from its entries without one."""
    files, group, logger = context.files, context.group, context.health.logger
    view, base_index, last_index = segment.view(), segment.base_index, segment.last_index

    def read() -> AbortedRows:
        record = _usable_record(files, view, group, base_index)
        if record is not None and (record.size, record.last_index) == (view.end, last_index):
            return AbortedRows.from_columns(record.rows)
        rows = _scanned(view)
        # A segment that was removed meanwhile has no index file any more.
        if not segment.file.is_nameless:
            logger.warning("index file %s cannot be used: the segment was read for its markers", index_path(view.path))
        return rows

    return read


def _usable_record(files: FileSystem, view: SegmentView, group: GroupId, base_index: Index) -> IndexRecord | None:
    try:
        return read_index_file(files, index_path(view.path), group, base_index)
    except OSError as error:
        # The next one that opens a file would meet the same.
        if error.errno in NO_DESCRIPTORS:
            raise
        return None


def _scanned(view: SegmentView) -> AbortedRows:
    rows, end = AbortedRows(), view.position
    for position, parsed in scan(view):
        end = position + parsed.entry.size
        row = aborted_row(parsed.entry) if is_control(parsed.entry) else None
        if row is not None:
            rows.add(row)
    if end != view.end:
        raise CorruptLogError(f"{view.path} ends within an entry at byte {end}", view.path)
    return rows
