"""Index files of closed segments, written in the background, oldest first, once their segments are durable."""

from collections.abc import Callable

from model.ids import GroupId
from runtime.environment import Environment
from runtime.open_files import OpenFiles
from runtime.workers import Pool
from storage.errors import StorageError
from storage.index_file import FORMAT_VERSION, IndexRecord, encode_index, index_path, write_index_file
from storage.log_health import LogHealth
from storage.log_jobs import LogJobs
from storage.log_positions import LogPositions
from storage.segment import Segment
from storage.segment_index import TermStart


class SegmentIndexer:
    """One per log; `segments` is the log's own list."""

    def __init__(
        self,
        env: Environment,
        files: OpenFiles,
        group: GroupId,
        positions: LogPositions,
        segments: list[Segment],
        jobs: LogJobs,
        health: LogHealth,
    ) -> None:
        self._env = env
        self._files = files
        self._group = group
        self._positions = positions
        self._segments = segments
        self._jobs = jobs
        self._health = health
        # Closed segments whose index file is still to be written, in order.
        self._due = [segment for segment in segments[:-1] if not segment.has_index_file]
        self._is_running = False

    def note_closed(self, segments: list[Segment]) -> None:
        """Segments were closed, and come after all that were before."""
        self._due.extend(segments)

    def follow(self) -> None:
        """Segments have left the log, or the last one is active again."""
        closed = self._segments[:-1]
        self._due = [segment for segment in self._due if segment in closed]

    def start(self) -> None:
        """Write what can be written; a failure costs a scan at the next start."""
        if not self._is_running and self._next() is not None:
            self._is_running = True
            self._jobs.spawn(self._run(), name="index")

    def _next(self) -> Segment | None:
        first = self._due[0] if self._due else None
        return first if first is not None and first.last_index <= self._positions.flushed_index else None

    async def _run(self) -> None:
        try:
            while self._next() is not None:
                await self._jobs.written()
                if self._jobs.is_closing or self._health.is_poisoned:
                    break
                await self._jobs.write(self._write)
        except StorageError as error:
            self._health.logger.warning("no index file is written any more: %s", error)
        finally:
            self._is_running = False

    async def _write(self) -> None:
        segment = self._next()
        if segment is None:
            return
        del self._due[0]
        await self._env.workers.run(Pool.APPEND, self._job(segment))

    def _job(self, segment: Segment) -> Callable[[], None]:
        files, path, content = self._files, index_path(segment.path), encode_index(self._record(segment))

        def write() -> None:
            try:
                write_index_file(files, path, content)
            except OSError as error:
                self._health.logger.warning("index file %s was not written: %s", path, error)

        return write

    def _record(self, segment: Segment) -> IndexRecord:
        # It witnesses that everything in the segment was fsynced (RFC 0002, I3).
        assert segment.last_index <= self._positions.flushed_index
        following = self._segments[self._segments.index(segment) + 1]
        assert segment.closed_ms is not None
        first = TermStart(segment.base_index, segment.term, segment.base_offset)
        return IndexRecord(
            FORMAT_VERSION,
            self._group,
            segment.base_index,
            segment.size,
            segment.last_index,
            following.base_offset,
            segment.index.max_timestamp,
            segment.created_ms,
            segment.closed_ms,
            segment.data_term,
            [first, *self._positions.terms_within(segment.base_index, segment.last_index)],
            *segment.index.columns(),
        )
