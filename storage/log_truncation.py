"""The blocking halves of a truncation: where to cut, and the removal, after the positions have moved."""

from model.error_text import reason_of
from model.ids import Index
from runtime.workers import Pool
from storage.aborted_lookup import all_rows_of
from storage.aborted_rows import AbortedRows
from storage.errors import CorruptLogError
from storage.log_context import LogContext
from storage.segment import Cut, Segment, find_cut
from storage.segment_writer import remove_and_cut


class LogTruncation:
    """One per log; any failure poisons it."""

    def __init__(self, context: LogContext) -> None:
        self._context = context

    async def locate(self, last: Segment | None, first_removed: Index) -> tuple[Cut | None, AbortedRows | None]:
        """Return where the last segment that stays is cut, and all of its rows: it is written to again.

        No cut if it stays whole or none stays; no rows if there are none.

        Raises:
            LogPoisonedError: It is damaged there.
        """
        if last is None:
            return None, None
        try:
            # The cut comes first, as it is all there is to look up in a log without transactions.
            return await self._locate_cut(last, first_removed), await all_rows_of(self._context, last)
        except (CorruptLogError, OSError) as error:
            raise self._context.health.poisoned(f"cannot be truncated: {reason_of(error)}") from error

    async def _locate_cut(self, last: Segment, first_removed: Index) -> Cut | None:
        if last.last_index < first_removed:
            return None
        position, max_timestamp = last.index.max_timestamp_before(first_removed)
        view = last.view(position)
        # Whoever truncates has begun to forget the entries: where nothing can be read for now, this waits.
        return await self._context.jobs.use_insisting(Pool.READ, lambda: find_cut(view, first_removed, max_timestamp))

    async def carry_out(self, removed: list[Segment], last: Segment | None, cut: Cut | None) -> None:
        """Remove whole segments, newest first, and cut the last one that stays.

        Raises:
            LogPoisonedError: The disk refused.
        """
        files, directory = self._context.files, self._context.directory
        position = None if cut is None else cut.position
        try:
            await self._context.jobs.insist(
                Pool.APPEND, lambda: remove_and_cut(files, directory, removed, last, position)
            )
        except OSError as error:
            raise self._context.health.poisoned(f"truncation failed: {reason_of(error)}") from error
        finally:
            for segment in removed:
                self._context.jobs.retire(segment)
        for segment in removed:
            self._context.health.logger.info("segment %s is truncated away", segment.name)
