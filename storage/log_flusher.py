"""Fsyncs of one log: one job at a time, shared by all who wait; it covers what was written before it began."""

import asyncio
from collections.abc import Callable

from model.error_text import reason_of
from runtime.workers import Pool
from storage.errors import StorageError
from storage.log_context import LogContext
from storage.segment import Segment
from storage.segment_indexer import SegmentIndexer


class LogFlusher:
    """One per log."""

    def __init__(self, context: LogContext, indexer: SegmentIndexer) -> None:
        self._context = context
        self._indexer = indexer
        self._running: asyncio.Future[None] | None = None

    async def fsync(self) -> None:
        """Wait for the fsync that is under way or, where there is none, for one that begins now.

        It covers what was written before it began, unless it fails, which poisons the log, or crosses a truncation.
        """
        if self._running is None:
            self._running = asyncio.get_running_loop().create_future()
            self._context.jobs.spawn(self._run(self._running), name="flush")
        await asyncio.shield(self._running)

    async def _run(self, done: asyncio.Future[None]) -> None:
        context = self._context
        positions, segments = context.positions, context.segments
        # Captured before the await: only what is written now is covered.
        target, covered, truncations = positions.dirty_index, positions.unflushed_bytes, positions.truncations
        taken = segments.take_dirty()
        is_crossed = False
        clock = asyncio.get_running_loop().time
        try:
            seconds = await context.jobs.use_here(Pool.FSYNC, lambda: _timed_fsync(taken, clock))
        except (OSError, StorageError) as error:
            context.health.poisoned(f"fsync failed: {reason_of(error)}")
        else:
            context.health.node_fsyncs.observe(seconds, clock())
            if context.health.fsync_durations is not None:
                context.health.fsync_durations.observe(seconds)
            is_crossed = truncations != positions.truncations
            if not is_crossed:
                positions.on_flushed(target, covered)
                self._indexer.start()
        finally:
            if is_crossed:
                segments.on_fsync_crossed(taken)
            else:
                segments.on_fsync_ended(taken)
            self._running = None
            done.set_result(None)

    async def idle(self) -> None:
        """Wait until no fsync is under way."""
        while self._running is not None:
            await asyncio.shield(self._running)


def _timed_fsync(segments: list[Segment], clock: Callable[[], float]) -> float:
    """Return how many seconds the disk took: neither the wait for a thread nor a late loop is its fault."""
    began = clock()
    _fsync_all(segments)
    return clock() - began


def _fsync_all(segments: list[Segment]) -> None:
    for segment in segments:
        segment.file.fsync()
