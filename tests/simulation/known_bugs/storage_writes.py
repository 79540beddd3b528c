"""Bugs where a log is written: what is durable, and when (RFC 0002)."""

import asyncio
import contextlib
import errno

import pytest

import storage.log_appender
import storage.log_flusher
import storage.log_segments
import storage.log_snapshots
import storage.log_truncation
from runtime.workers import Pool
from storage.log_flusher import LogFlusher
from storage.log_jobs import LogJobs
from storage.log_segments import LogSegments
from storage.log_snapshots import LogSnapshots
from storage.memory_kvstore import MemoryKvStore
from storage.segment_index import SegmentIndex
from storage.segment_writer import write_parts
from storage.snapshot_file import DISK_FULL
from tests.simulation.world.sim_workers import SimWorkers


def fsync_is_skipped(patch: pytest.MonkeyPatch) -> None:
    """A flush reports success without an fsync."""
    patch.setattr(storage.log_flusher, "_fsync_all", lambda segments: None)


def only_the_newest_segment_is_fsynced(patch: pytest.MonkeyPatch) -> None:
    """A flush that covers several segments fsyncs the last one of them only."""
    fsync_all = storage.log_flusher._fsync_all
    patch.setattr(storage.log_flusher, "_fsync_all", lambda segments: fsync_all(segments[-1:]))


def fsync_error_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """An fsync that fails counts as one that has succeeded."""
    fsync_all = storage.log_flusher._fsync_all

    def fsync(segments) -> None:
        with contextlib.suppress(OSError):
            fsync_all(segments)

    patch.setattr(storage.log_flusher, "_fsync_all", fsync)


def failed_fsync_is_tried_again(patch: pytest.MonkeyPatch) -> None:
    """An fsync that fails is repeated: the kernel calls the pages clean by then, and says yes."""
    fsync_all = storage.log_flusher._fsync_all

    def fsync(segments) -> None:
        try:
            fsync_all(segments)
        except OSError:
            fsync_all(segments)

    patch.setattr(storage.log_flusher, "_fsync_all", fsync)


def fsync_covers_what_came_after_it_began(patch: pytest.MonkeyPatch) -> None:
    """A flush counts everything that is written when it ends, not what was written when it began."""

    async def run(flusher: LogFlusher, done: asyncio.Future[None]) -> None:
        context = flusher._context
        positions, segments = context.positions, context.segments
        taken, truncations = segments.take_dirty(), positions.truncations
        try:
            await context.jobs.use_here(Pool.FSYNC, lambda: storage.log_flusher._fsync_all(taken))
        except OSError as error:
            context.health.poisoned(f"fsync failed: {error}")
        else:
            if truncations == positions.truncations:
                positions.on_flushed(positions.dirty_index, positions.unflushed_bytes)
                flusher._indexer.start()
                segments.on_fsync_ended(taken)
            else:
                segments.on_fsync_crossed(taken)
        flusher._running = None
        done.set_result(None)

    patch.setattr(LogFlusher, "_run", run)


def new_segments_name_is_not_fsynced(patch: pytest.MonkeyPatch) -> None:
    """A segment begins without an fsync of its directory: a power loss takes the file, with all that was fsynced."""

    def write(files, directory, parts) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(files), "fsync_dir", lambda files, path: None)
            write_parts(files, directory, parts)

    patch.setattr(storage.log_appender, "write_parts", write)


def full_disk_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """An append for which there was no room counts as written."""

    def write(files, directory, parts) -> None:
        try:
            write_parts(files, directory, parts)
        except OSError as error:
            if error.errno not in DISK_FULL or any(part.file is None for part in parts):
                raise

    patch.setattr(storage.log_appender, "write_parts", write)


def failed_write_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """An append that the disk has refused counts as written."""

    def write(files, directory, parts) -> None:
        try:
            write_parts(files, directory, parts)
        except OSError as error:
            if error.errno != errno.EIO or any(part.file is None for part in parts):
                raise

    patch.setattr(storage.log_appender, "write_parts", write)


def partial_append_is_left_behind(patch: pytest.MonkeyPatch) -> None:
    """What a full disk took of an append stays in the file, and a restart reads it as part of the log."""
    patch.setattr(storage.log_appender, "cut_back", lambda files, directory, parts: None)


def truncation_keeps_the_next_segment(patch: pytest.MonkeyPatch) -> None:
    """A truncation that ends within a segment leaves the segments behind it on the disk."""
    remove_and_cut = storage.log_truncation.remove_and_cut

    def remove(files, directory, removed, last, position) -> None:
        remove_and_cut(files, directory, removed if last is None else removed[1:], last, position)

    patch.setattr(storage.log_truncation, "remove_and_cut", remove)


def index_is_ahead_of_the_log(patch: pytest.MonkeyPatch) -> None:
    """A truncation leaves the rows of what is cut in the sparse index: a lookup finds what stood there before."""

    def cut(index: SegmentIndex, position: int, max_timestamp: int) -> None:
        index.max_timestamp = max_timestamp

    patch.setattr(SegmentIndex, "cut", cut)


def kvstore_writes_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The store of terms and votes reports a sync that has not happened."""

    async def sync(store: MemoryKvStore) -> None:
        store._check_open()

    patch.setattr(MemoryKvStore, "sync", sync)


def segments_go_before_the_snapshot_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Segments below a new log start are deleted first, and then the snapshot that says so is written."""
    write = LogSnapshots._write

    async def save(snapshots: LogSnapshots, snapshot) -> None:
        context = snapshots._context
        files, directory = context.files, context.directory
        removed = context.segments.remove_below(snapshot.start.index)
        if removed:
            context.positions.forget_terms(context.segments[0].base_index)
        for segment in removed:
            context.jobs.retire(segment)
        await context.env.workers.run(
            Pool.APPEND, lambda: storage.log_snapshots.remove_prefix(files, directory, removed)
        )
        await write(snapshots, snapshot)

    patch.setattr(LogSnapshots, "_save", save)


def one_segment_too_many_goes(patch: pytest.MonkeyPatch) -> None:
    """With a new log start the segment goes that holds it, if there is a later one."""

    def remove_below(segments: LogSegments, start) -> list:
        first = sum(segment.base_index <= start for segment in segments[1:])
        first = min(first + 1, len(segments) - 1) if first else 0
        removed = segments[:first]
        del segments._segments[:first]
        segments._leave(removed)
        return removed

    patch.setattr(LogSegments, "remove_below", remove_below)


def refused_descriptor_is_a_broken_disk(patch: pytest.MonkeyPatch) -> None:
    """An append that finds no descriptor for its segment stops the replica for good."""
    patch.setattr(storage.log_appender, "NO_DESCRIPTORS", ())


def what_cannot_be_refused_gives_up_without_a_descriptor(patch: pytest.MonkeyPatch) -> None:
    """An undo, a truncation or a removal that finds no descriptor for its fsync is not repeated."""

    async def insist(jobs: LogJobs, attempt):
        return await attempt()

    patch.setattr(LogJobs, "_insist", insist)


def dirty_segments_may_be_closed(patch: pytest.MonkeyPatch) -> None:
    """A file that holds bytes without an fsync is closed like any other: a failed write-back may never be told."""

    def mark_dirty(segments: LogSegments, segment) -> None:
        if segment not in segments._dirty:
            segments._dirty.append(segment)

    patch.setattr(LogSegments, "mark_dirty", mark_dirty)
    patch.setattr(storage.log_segments, "_unpin_all", lambda segments: None)


def refused_write_on_the_loop_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """A small append that was refused without a thread counts as written."""
    run_now = SimWorkers.run_now

    def run(workers: SimWorkers, job) -> bool:
        try:
            return run_now(workers, job)
        except OSError:
            return True

    patch.setattr(SimWorkers, "run_now", run)
