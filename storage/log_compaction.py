"""Compaction of one log: what a pass may clean, and the swap of what it has written into the log (RFC 0022, 3 to 6).

The pass itself is `segment_cleaning`, in a process of its own. Between the request and the swap the log goes on: where
a source has left it meanwhile, the swap is given up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from model.error_text import reason_of
from model.ids import NO_INDEX, Index, Offset
from runtime.open_files import CachedFile
from runtime.workers import Pool
from storage.aborted_lookup import AbortedLookup
from storage.aborted_rows import AbortedRows
from storage.cleaned_output import CleanedSegment
from storage.index_file import CleanedTime
from storage.log_context import LogContext
from storage.log_snapshots import LogSnapshots
from storage.segment import Segment
from storage.segment_cleaning import CleaningRequest, CleaningResult, Source
from storage.segment_index import SegmentIndex
from storage.segment_indexer import SegmentIndexer
from storage.segment_swap import Swap, commit_swap, finish_swap, remove_outputs, swap_of

# Between two swaps, so many times what the one before has taken: appends wait in the same lane, and go first.
_REST_FACTOR = 9
_REST_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class CleaningLimits:
    """What the owner of a log lets a pass do.

    Attributes:
        end: The last entry that may be cleaned: committed, in the durable state, below all open transactions.
        kept_index: The newest entry with records at or below the commit index.
        committed_offset: The offset behind the commit index.
        deletes_to: Tombstones and markers up to here may go.
        delete_retention_ms: How long after they were cleaned first.
        min_lag_ms: Segments with a timestamp that is younger are left alone, and all behind them.
        now_ms: By the wall clock.
        joins: Whether outputs may stand for several segments.
        segment_bytes, map_bytes: As of `CleaningRequest`.
    """

    end: Index
    kept_index: Index
    committed_offset: Offset
    deletes_to: Index
    delete_retention_ms: int
    min_lag_ms: int
    now_ms: int
    joins: bool
    segment_bytes: int
    map_bytes: int


class CleaningFacts(NamedTuple):
    """What a pass over a log would find.

    Attributes:
        cleanable_bytes: Of the segments that it would read.
        dirty_bytes: Of those among them that hold entries behind the clean index.
        dirty_since_ms: When the first of these was begun; 0 without any.
        removable_bytes: Of tombstones and markers in the others that may go now.
        held_bytes: Of those that are old enough, and stay because a member of the group is not as clean.
    """

    cleanable_bytes: int
    dirty_bytes: int
    dirty_since_ms: int
    removable_bytes: int
    held_bytes: int = 0


class LogCompaction:
    """One per log."""

    def __init__(
        self, context: LogContext, snapshots: LogSnapshots, indexer: SegmentIndexer, index_interval_bytes: int
    ) -> None:
        self._context = context
        self._snapshots = snapshots
        self._indexer = indexer
        self._interval = index_interval_bytes
        self._aborted = AbortedLookup(context)

    @property
    def clean_index(self) -> Index:
        """C of RFC 0022: no record up to here is superseded by another one up to here."""
        clean: Index | None = None
        for segment in self._context.segments:
            if clean is not None and segment.base_index > clean:
                break
            reach = max(segment.cleaned_to, Index(segment.base_index - 1))
            clean = reach if clean is None else min(clean, reach)
        return NO_INDEX if clean is None else clean

    @property
    def dirty_bytes(self) -> int:
        """Bytes of the segments that have entries behind the clean index."""
        clean = self.clean_index
        return sum(segment.size for segment in self._context.segments if segment.last_index > clean)

    def cleanable(self, limits: CleaningLimits) -> list[Segment]:
        """Return the closed segments that a pass may clean, from the first one on."""
        found: list[Segment] = []
        flushed, youngest = self._context.positions.flushed_index, limits.now_ms - limits.min_lag_ms
        for segment in self._context.segments[:-1]:
            if segment.last_index > min(limits.end, flushed) or segment.index.max_timestamp > youngest:
                break
            found.append(segment)
        return found

    def facts(self, limits: CleaningLimits) -> CleaningFacts:
        """Return what a pass would find."""
        segments, clean = self.cleanable(limits), self.clean_index
        dirty = [segment for segment in segments if segment.last_index > clean]
        deletes_to, latest = min(limits.deletes_to, clean), limits.now_ms - limits.delete_retention_ms
        old = [
            segment
            for segment in segments
            if segment.last_index <= clean and segment.cleaned_times and segment.cleaned_times[-1].time_ms <= latest
        ]
        return CleaningFacts(
            sum(segment.size for segment in segments),
            sum(segment.size for segment in dirty),
            dirty[0].created_ms if dirty else 0,
            sum(segment.delete_bytes for segment in old if segment.last_index <= deletes_to),
            sum(segment.delete_bytes for segment in old if segment.last_index > deletes_to),
        )

    async def request(self, limits: CleaningLimits) -> CleaningRequest | None:
        """Return what a pass is to do now; None if there is no segment for it.

        Raises:
            CorruptLogError: A segment whose rows of aborted transactions are needed is damaged.
            RefusedError, OSError: The disk does not answer.
        """
        segments = self.cleanable(limits)
        if not segments:
            return None
        first, last = segments[0], segments[-1]
        end = self._context.segments.after(last).base_offset
        rows = AbortedRows()
        for row in await self._aborted.within(first.base_index, first.base_offset, end):
            if row.marker_offset < limits.committed_offset:
                rows.add(row)
        return CleaningRequest(
            directory=self._context.directory,
            sources=[_source(segment) for segment in segments],
            start=self._context.positions.start,
            clean_index=min(self.clean_index, last.last_index),
            kept_index=limits.kept_index,
            aborted=rows.columns(),
            deletes_to=limits.deletes_to,
            delete_retention_ms=limits.delete_retention_ms,
            now_ms=limits.now_ms,
            times=_times(segments),
            segment_bytes=limits.segment_bytes,
            joins=limits.joins,
            map_bytes=limits.map_bytes,
            index_interval_bytes=self._interval,
        )

    async def make(self, clean: Callable[[], Awaitable[CleaningResult]]) -> CleaningResult:
        """Wait for `clean`, which makes the pass; it is cancelled once the log is closed, or removed.

        Raises:
            StorageError: The log is closed.
            Others: As `clean`.
        """
        return await self._context.jobs.host(clean)

    async def swap(self, result: CleaningResult) -> int:
        """Put the outputs of a pass in the place of their sources; return how many were.

        The others are removed: a source has left the log since, or is written to again.

        Raises:
            RefusedError: No room, or no descriptor, for the mark; nothing has changed but that.
            LogPoisonedError: The disk failed, now or before.
        """
        await self._snapshots.raise_compacted(result.cleaned_to)
        swapped, loop, rest = 0, asyncio.get_running_loop(), 0.0
        for output in result.outputs:
            await asyncio.sleep(rest)
            await self._make_way(output.last_index)
            await self._context.jobs.written()
            self._context.check_usable()
            sources = self._sources_of(output)
            if sources is None:
                await self._discard(output)
                continue
            began = loop.time()
            await self._context.jobs.write(partial(self._swap, output, sources, result))
            swapped, rest = swapped + 1, min(_REST_FACTOR * (loop.time() - began), _REST_SECONDS_MAX)
        self._indexer.start()
        return swapped

    async def remove_outputs(self) -> None:
        """Remove what a pass that has failed has written; none is under way.

        Raises:
            LogPoisonedError: The disk failed before. A start removes the files.
            OSError: The disk refuses. The next pass or start removes them.
        """
        context = self._context
        context.check_usable()
        # A job of the log: nobody removes the directory meanwhile.
        await context.jobs.use(Pool.APPEND, partial(remove_outputs, context.files, context.directory))

    def _sources_of(self, output: CleanedSegment) -> list[Segment] | None:
        """Return the segments that an output stands for; None if they are not all there, closed, as they were."""
        closed = self._context.segments[:-1]
        paths = [segment.path for segment in closed]
        if output.first_source not in paths or output.last_source not in paths:
            return None
        sources = closed[paths.index(output.first_source) : paths.index(output.last_source) + 1]
        if not sources or (sources[0].base_index, sources[-1].last_index) != (output.base_index, output.last_index):
            return None
        return sources

    async def _make_way(self, last: Index) -> None:
        """Have memory drop most of what a swap will replace, in steps: all at once would hold the loop up."""
        while self._context.read_cache.forget_some(last) or self._context.tail.forget_some(last):  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def _discard(self, output: CleanedSegment) -> None:
        files = self._context.files

        def remove() -> None:
            if files.exists(output.path):
                files.unlink(output.path)

        await self._context.jobs.use(Pool.APPEND, remove)

    async def _swap(self, output: CleanedSegment, sources: list[Segment], result: CleaningResult) -> None:
        context = self._context
        files, jobs = context.files, context.jobs
        swap = swap_of(context.directory, output)

        def commit() -> CachedFile:
            commit_swap(files, swap, output.path)
            file = files.cached(swap.path)
            file.pin()
            return file

        try:
            file = await jobs.insist(Pool.APPEND, commit)
            try:
                self._replace(sources, _segment(output, swap, file, result, self._interval))
                await jobs.insist(Pool.APPEND, lambda: finish_swap(files, swap))
                # It was open under its former name until here.
                file.path = swap.final_path
            finally:
                file.unpin()
        except OSError as error:
            raise context.health.poisoned(f"a cleaned segment cannot be put in place: {reason_of(error)}") from error
        finally:
            for source in sources:
                if source.file.is_nameless:
                    jobs.retire(source)

    def _replace(self, sources: list[Segment], segment: Segment) -> None:
        """In one step: whoever reads looks again, and memory holds nothing of what was replaced."""
        context = self._context
        context.segments.replace(sources, segment)
        context.tail.forget_until(segment.last_index)
        context.read_cache.forget_until(segment.last_index)
        context.positions.on_replaced()


def _source(segment: Segment) -> Source:
    assert segment.closed_ms is not None
    first = segment.base_index
    return Source(
        *(segment.path, first, segment.term, segment.last_index, segment.size, segment.created_ms, segment.closed_ms)
    )


def _times(segments: list[Segment]) -> list[CleanedTime]:
    """Return when the entries of these segments were cleaned first, ascending; from the first that was not on, none."""
    times: list[CleanedTime] = []
    for segment in segments:
        for time in segment.cleaned_times:
            last = min(time.last_index, segment.last_index)
            if not times or last > times[-1].last_index:
                times.append(CleanedTime(last, time.time_ms))
        if not times or times[-1].last_index < segment.last_index:
            break
    return times


def _segment(output: CleanedSegment, swap: Swap, file: CachedFile, result: CleaningResult, interval: int) -> Segment:
    rows = AbortedRows.from_columns(output.rows)
    times = [each for each in result.times if each.last_index >= output.base_index]
    until = next((at for at, each in enumerate(times) if each.last_index >= output.last_index), len(times))
    return Segment(
        path=swap.final_path,
        base_index=output.base_index,
        base_offset=output.base_offset,
        term=output.term,
        file=file,
        index=SegmentIndex.from_columns(output.columns, output.size, output.max_timestamp, interval),
        created_ms=output.created_ms,
        last_index=output.last_index,
        size=output.size,
        data_term=output.data_term,
        closed_ms=output.closed_ms,
        rows=rows or None,
        lowest_first=rows.lowest,
        cleaned_to=result.cleaned_to,
        cleaned_times=times[: until + 1],
        delete_bytes=output.delete_bytes,
    )
