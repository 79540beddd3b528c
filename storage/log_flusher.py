"""Fsyncs of one log: one job at a time, shared by all who wait; it covers what was written before it began."""

import asyncio
from collections.abc import Callable

from model.duration_histogram import DurationHistogram
from model.ids import Index
from runtime.workers import Pool
from storage.errors import StorageError
from storage.log_health import LogHealth
from storage.log_jobs import LogJobs
from storage.log_positions import LogPositions
from storage.segment import Segment
from storage.segment_indexer import SegmentIndexer


class LogFlusher:
    """One per log; `segments` is the log's own list.

    Attributes:
        durations: Where the time of each fsync is counted; None: nowhere.
    """

    def __init__(
        self,
        positions: LogPositions,
        segments: list[Segment],
        jobs: LogJobs,
        health: LogHealth,
        indexer: SegmentIndexer,
    ) -> None:
        self._positions = positions
        self._segments = segments
        self._jobs = jobs
        self._health = health
        self._indexer = indexer
        self._dirty: list[Segment] = []
        self._running: asyncio.Future[None] | None = None
        self.durations: DurationHistogram | None = None

    def note_written(self, segment: Segment) -> None:
        """A segment, which is open, holds bytes that no fsync has covered: it stays open until one has."""
        if segment not in self._dirty:
            segment.file.pin()
            self._dirty.append(segment)

    def follow(self) -> None:
        """Segments have left the log."""
        left = [segment for segment in self._dirty if segment not in self._segments]
        self._dirty = [segment for segment in self._dirty if segment in self._segments]
        _unpin_all(left)

    def close(self) -> None:
        """Nothing is flushed any more."""
        _unpin_all(self._dirty)
        self._dirty.clear()

    async def flush(self) -> Index:
        """See `Log.flush`."""
        positions = self._positions
        target, truncations = positions.last_index, positions.truncations
        while positions.flushed_index < target:
            self._check_usable()
            if self._running is None:
                self._running = asyncio.get_running_loop().create_future()
                self._jobs.spawn(self._run(self._running), name="flush")
            await asyncio.shield(self._running)
            if positions.truncations != truncations:
                target, truncations = min(target, positions.last_index), positions.truncations
        self._check_usable()
        return positions.flushed_index

    def _check_usable(self) -> None:
        self._jobs.check_open()
        self._health.check()

    async def _run(self, done: asyncio.Future[None]) -> None:
        positions = self._positions
        # Captured before the await: only what is written now is covered.
        target, covered, truncations = positions.last_index, positions.unflushed_bytes, positions.truncations
        segments = self._dirty[:]
        self._dirty.clear()
        clock = asyncio.get_running_loop().time
        try:
            seconds = await self._jobs.use(Pool.FSYNC, lambda: _timed_fsync(segments, clock))
        except (OSError, StorageError) as error:
            self._health.poisoned(f"fsync failed: {error}")
        else:
            if self.durations is not None:
                self.durations.note(seconds)
            if truncations == positions.truncations:
                positions.note_flushed(target, covered)
                self._indexer.start()
            else:
                again = [segment for segment in segments if segment in self._segments and segment not in self._dirty]
                self._dirty[:0] = again
                segments = [segment for segment in segments if segment not in again]
        finally:
            _unpin_all(segments)
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


def _unpin_all(segments: list[Segment]) -> None:
    for segment in segments:
        segment.file.unpin()
