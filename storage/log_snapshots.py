"""Saving and installing snapshots of one log, and deleting the segments that they make needless.

They come one after the other, beside appends and truncations: a saved snapshot touches no segment that an append or a
truncation touches, and only the last step of an install takes its turn among the writes.
"""

from model.error_text import reason_of
from model.ids import NO_INDEX, Index
from runtime.open_files import NO_DESCRIPTORS
from runtime.workers import Pool
from storage.compacted_mark import write_compacted_mark
from storage.damaged_files import remove_damaged_copies
from storage.errors import DiskFullError, OpenFilesError
from storage.log_context import LogContext
from storage.log_start import LogStart
from storage.segment_writer import remove_and_cut, remove_prefix
from storage.snapshot_file import DISK_FULL, Snapshot, UnsettledSnapshotError, write_snapshot


class LogSnapshots:
    """One per log.

    Attributes:
        applied_index: That of the newest durable snapshot, 0 if there is none.
        compacted_index: How far the log may be compacted; a restart finds at least as much.
    """

    def __init__(self, context: LogContext, found: Snapshot | None, compacted_index: Index) -> None:
        self._context = context
        self._found = found
        self._start = found.start if found is not None else None
        self.applied_index: Index = found.applied_index if found is not None else NO_INDEX
        self.compacted_index = compacted_index

    def pop_found(self) -> Snapshot | None:
        """Return what was found at the open; only once."""
        found, self._found = self._found, None
        return found

    async def save(self, snapshot: Snapshot) -> None:
        """Write the snapshot, then delete the segments below its start, which leave the log in one step.

        Raises:
            RefusedError: Nothing has changed: there is no room, or no descriptor; try again later.
            SnapshotTooLargeError: Nothing has changed; try again when the state is smaller.
            LogPoisonedError: The disk failed, now or before.
        """
        await self._context.jobs.saved()
        self._context.check_usable()
        if self._is_older(snapshot):
            return
        await self._context.jobs.save(lambda: self._save(snapshot))

    async def _save(self, snapshot: Snapshot) -> None:
        await self._write(snapshot)
        # An index file may be under way for a segment that is about to go.
        await self._context.jobs.written()
        segments = self._context.segments
        removed = segments.remove_below(snapshot.start.index)
        if not removed:
            return
        self._context.positions.forget_terms(segments[0].base_index)
        files, directory = self._context.files, self._context.directory
        try:
            await self._context.jobs.insist(Pool.APPEND, lambda: remove_prefix(files, directory, removed))
        except OSError as error:
            raise self._context.health.poisoned(
                f"segments below the log start cannot be removed: {reason_of(error)}"
            ) from error
        finally:
            for segment in removed:
                self._context.jobs.retire(segment)
        for segment in removed:
            self._context.health.logger.info("segment %s is below the log start and removed", segment.name)

    async def install(self, snapshot: Snapshot) -> None:
        """Write the snapshot, then delete all segments, which leave the log in one step: it is empty at the start.

        Raises:
            RefusedError: Nothing has changed: there is no room, or no descriptor.
            LogPoisonedError: The disk failed, now or before.
        """
        await self._context.jobs.saved()
        self._context.check_usable()
        await self._context.jobs.save(lambda: self._install(snapshot))

    async def _install(self, snapshot: Snapshot) -> None:
        await self._write(snapshot)
        # Durable: whatever fails from here on, a restart finds the log empty at the start.
        await self._context.jobs.written()
        await self._context.jobs.write(lambda: self._reset(snapshot.start))

    async def _reset(self, start: LogStart) -> None:
        removed = self._context.segments.remove_all()
        self._context.tail.cut(NO_INDEX)
        self._context.read_cache.cut(NO_INDEX)
        self._context.positions.on_installed(start)
        files, directory = self._context.files, self._context.directory
        try:
            await self._context.jobs.insist(Pool.APPEND, lambda: remove_and_cut(files, directory, removed, None, None))
        except OSError as error:
            raise self._context.health.poisoned(f"the former log cannot be removed: {reason_of(error)}") from error
        finally:
            for segment in removed:
                self._context.jobs.retire(segment)
        self._context.health.logger.info("the log is replaced by a snapshot, it begins at %d", start.index)

    async def _write(self, snapshot: Snapshot) -> None:
        files, directory = self._context.files, self._context.directory
        try:
            await self._context.env.workers.run(Pool.APPEND, lambda: write_snapshot(files, directory, snapshot))
        except UnsettledSnapshotError:
            await self._settle_snapshot()
        except OSError as error:
            raise self._context.health.poisoned(f"a snapshot cannot be written: {reason_of(error)}") from error
        self._record_written(snapshot)

    async def _settle_snapshot(self) -> None:
        """The new one has its name: nothing can be refused any more."""
        files, directory = self._context.files, self._context.directory
        try:
            await self._context.jobs.insist(Pool.APPEND, lambda: files.fsync_dir(directory))
        except OSError as error:
            raise self._context.health.poisoned(f"a snapshot cannot be made durable: {reason_of(error)}") from error

    def _record_written(self, snapshot: Snapshot) -> None:
        self._found = None
        self._start, self.applied_index = snapshot.start, snapshot.applied_index

    async def raise_compacted(self, index: Index) -> None:
        """Make the mark durable, if it is below `index`.

        Raises:
            RefusedError: There is no room, or no descriptor; a restart may find the mark all the same.
            LogPoisonedError: The disk failed, now or before.
        """
        await self._context.jobs.saved()
        self._context.check_usable()
        if index > self.compacted_index:
            await self._context.jobs.save(lambda: self._raise_compacted(index))

    async def _raise_compacted(self, index: Index) -> None:
        files, directory = self._context.files, self._context.directory
        try:
            await self._context.env.workers.run(Pool.APPEND, lambda: write_compacted_mark(files, directory, index))
        except OSError as error:
            if error.errno in DISK_FULL:
                raise DiskFullError(f"{directory}: {reason_of(error)}") from error
            if error.errno in NO_DESCRIPTORS:
                raise OpenFilesError(f"{directory}: {reason_of(error)}: raise `ulimit -n`") from error
            raise self._context.health.poisoned(f"the mark of compaction: {reason_of(error)}") from error
        self.compacted_index = index

    async def forget_damaged(self) -> None:
        """Delete the copies of damaged files.

        Raises:
            LogPoisonedError: The disk failed, now or before.
        """
        await self._context.jobs.saved()
        self._context.check_usable()
        await self._context.jobs.save(self._forget_damaged)

    async def _forget_damaged(self) -> None:
        files, directory = self._context.files, self._context.directory
        try:
            await self._context.jobs.insist(Pool.APPEND, lambda: remove_damaged_copies(files, directory))
        except OSError as error:
            raise self._context.health.poisoned(f"damaged copies cannot be removed: {reason_of(error)}") from error

    def _is_older(self, snapshot: Snapshot) -> bool:
        """Whether it would take back what is durable already."""
        if snapshot.applied_index < self.applied_index:
            return True
        start = self._start
        return start is not None and (snapshot.start.index, snapshot.start.offset) < (start.index, start.offset)
