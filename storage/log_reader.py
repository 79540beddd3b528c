"""Reading a log: entries by index, and where an offset or a timestamp is. Checksums are checked on the way.

What was read while a truncation happened is read again: it may have been removed and replaced. Damage that is none of
the log reports that to its owner, whoever was reading: durable bytes have changed.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from model.error_text import reason_of
from model.ids import NO_INDEX, Index, Offset
from runtime.open_files import NO_DESCRIPTORS, CachedFile, FileGoneError
from storage.aborted_lookup import AbortedLookup
from storage.aborted_rows import AbortedRow
from storage.entry import Entry, EntryKind
from storage.errors import CorruptLogError, LogTruncatedError, OpenFilesError, StorageError
from storage.file_range import FileRange, RangeSource
from storage.log_context import LogContext
from storage.placeholder import rest_of
from storage.read_ahead import ReadAhead, ReadAheadBudget
from storage.segment import LOOKUP_CHUNK_BYTES, Place, SegmentView, max_timestamp_of, read_run, scan, scan_heads
from storage.verified_ranges import VerifiedBudget, VerifiedRanges

T = TypeVar("T")

# How far the disk reads ahead of a reader in order, beside the run that is read ahead into memory.
_AHEAD_BYTES = 4 * 1024 * 1024


class LogReader:
    """Reads for one log. Shares its segments and its newest entries, changes nothing."""

    def __init__(self, context: LogContext, ahead: ReadAheadBudget, verified: VerifiedBudget) -> None:
        self._positions = context.positions
        self._segments = context.segments
        self._tail = context.tail
        self._read_cache = context.read_cache
        self._ahead = ReadAhead(context.positions, context.jobs, ahead, self._read_in_order)
        self._jobs = context.jobs
        self._health = context.health
        source = RangeSource(context.jobs, context.health, verified.sent)
        self._verified = VerifiedRanges(verified, context.positions, context.health, source)
        self._aborted = AbortedLookup(context)

    def forget_all(self) -> None:
        """The log is closed: give back the memory of what was read ahead, and of what was found whole."""
        self._ahead.drop_all()
        self._verified.forget_all()

    async def read(self, first: Index, max_bytes: int, last: Index | None) -> list[Entry]:
        """Return entries from `first` up to `last`; see `Log.read`."""
        return await self._undisturbed(lambda: self._read(first, max_bytes, last))

    async def _read(self, first: Index, max_bytes: int, last: Index | None) -> list[Entry]:
        positions = self._positions
        start = positions.start
        if first < start.index:
            raise LogTruncatedError(f"entry {first} is below the start of the log, {positions.start_index}")
        end = positions.dirty_index if last is None else min(last, positions.dirty_index)
        if first > end:
            return []
        run = self._tail.read(first, end, max_bytes)
        if run is None:
            run = self._read_cache.read(first, end, max_bytes)
        if run is None:
            run = await self._read_on(first, end, max_bytes)
        if run[0].index < start.index:
            # A placeholder stands for what lies before the start, too.
            run = [rest_of(run[0], start.index, start.base_offset), *run[1:]]
        # Section 1: indexes have no gap; `read_run` has refused by name whatever the disk may hold instead.
        assert run[0].index <= first <= run[0].last_index
        assert run[0].index + len(run) - 1 <= run[-1].index <= end
        return run

    async def _read_on(self, first: Index, end: Index, max_bytes: int) -> list[Entry]:
        """Read from the files, or take what was read ahead; and read ahead for whoever goes on from there."""
        truncations = self._positions.truncations
        run = await self._ahead.take(first, end, max_bytes)
        if run is None:
            run = await self._read_files(first, end, max_bytes)
        following = Index(run[-1].last_index + 1)
        is_at_hand = any(each.holds(following) for each in (self._tail, self._read_cache, self._verified))
        if truncations == self._positions.truncations and not is_at_hand:
            self._ahead.follow(run, end, max_bytes)
        return run

    async def _read_in_order(self, first: Index, last: Index, max_bytes: int) -> list[Entry]:
        """As `_read_files`, for a reader who goes on: the disk reads what follows while this is checked and sent."""
        return await self._read_files(first, last, max_bytes, ahead_bytes=_AHEAD_BYTES)

    async def _read_files(self, first: Index, last: Index, max_bytes: int, *, ahead_bytes: int = 0) -> list[Entry]:
        truncations = self._positions.truncations
        files, views = self._views(first, last, max_bytes)
        places: list[Place] = []

        def read() -> list[Entry]:
            if ahead_bytes:
                views[0].file.will_need(max_bytes + ahead_bytes, views[0].position)
            return read_run(views, first, last, max_bytes, places)

        entries = await self._jobs.read(read)
        # A closed log remembers nothing: nobody would forget it again.
        if truncations == self._positions.truncations and not self._jobs.is_closing:
            self._verified.note(entries, [(files[place.view], place.position) for place in places])
        return entries

    def _views(self, first: Index, last: Index, max_bytes: int) -> tuple[list[CachedFile], list[SegmentView]]:
        """Return the segments that hold [first, last], but not many more than hold `max_bytes`."""
        files: list[CachedFile] = []
        views: list[SegmentView] = []
        due = size = 0
        for segment in self._segments.holding(first):
            if segment.base_index > last or (views and size > max_bytes):
                break
            # Section 2: whole segments follow the first, without a gap.
            assert not views or segment.base_index == due
            due = segment.last_index + 1
            view = segment.view(segment.index.position_of_index(first) if not views else 0)
            if views:
                size += view.end
            files.append(segment.file)
            views.append(view)
        return files, views

    def verified_ranges(self, first: Index, last: Index, max_bytes: int) -> list[FileRange]:
        """Return payloads of data entries from `first` on until `last` or `max_bytes` that may leave from their files.

        None if `first` is in memory, or was not read from the files since the log was opened, or is small. The caller
        knows that all of them are committed. What is in these files stays as it is, whatever becomes of the log.
        """
        if self._jobs.is_closing or self.holds(first):
            return []
        return self._verified.ranges(first, last, max_bytes)

    # -- with rows of aborted transactions ------------------------------------------------------------------------

    async def read_with_aborted(
        self, first: Index, max_bytes: int, last: Index
    ) -> tuple[list[Entry], list[AbortedRow]]:
        """As `read`, with the rows of the aborted transactions that have records in what is returned.

        Both are of one view of the log: no segment that was there when the entries were read has left it before the
        rows were found. Rows of markers that are written meanwhile may be missing: the caller reads nothing of a
        transaction that is open (RFC 0021, 6).

        Raises:
            LogTruncatedError: `first` is below the start of the log, perhaps only since it was read.
            CorruptLogError, RefusedError: As `index_of_offset`.
        """

        async def attempt() -> tuple[list[Entry], list[AbortedRow]]:
            run = await self._read(first, max_bytes, last)
            end = run[-1].end_offset if run else Offset(0)
            # Most often nothing was aborted. Then no segment can have taken a row with it, either.
            if not self._segments.may_have_rows_before(end):
                return run, []
            return run, await self._rows_within(first, run[0].base_offset, end)

        return await self._undisturbed(attempt)

    async def ranges_with_aborted(
        self, first: Index, last: Index, max_bytes: int, offset: Offset
    ) -> tuple[list[FileRange], list[AbortedRow]]:
        """As `verified_ranges`, with rows as `read_with_aborted`; `offset` is one that entry `first` holds.

        Where `offset` is not the first one of its entry, rows may be among them of transactions that begin up to so
        many records behind the ranges.

        Raises:
            LogTruncatedError, CorruptLogError, RefusedError: As `read_with_aborted`.
        """

        async def attempt() -> tuple[list[FileRange], list[AbortedRow]]:
            ranges = self.verified_ranges(first, last, max_bytes)
            end = Offset(offset + sum(each.record_count for each in ranges))
            if not ranges or not self._segments.may_have_rows_before(end):
                return ranges, []
            return ranges, await self._rows_within(first, offset, end)

        return await self._undisturbed(attempt)

    async def _rows_within(self, first: Index, begin: Offset, end: Offset) -> list[AbortedRow]:
        """Return the rows of what was read from entry `first` on; `_undisturbed` sees to truncations."""
        self._check_held(first)
        rows = await self._aborted.within(first, begin, end)
        # Segments leave in the order of the log: where that of `first` is still there, all behind it are.
        self._check_held(first)
        return rows

    def _check_held(self, first: Index) -> None:
        # A closed log has no segments, but nothing of it was deleted.
        self._jobs.check_open()
        if not self._segments or self._segments[0].base_index > first:
            raise LogTruncatedError(f"entry {first} is below the start of the log, {self._positions.start_index}")

    # -- lookups --------------------------------------------------------------------------------------------------

    async def locate_end_offset(self, index: Index) -> Offset:
        """Return the offset after an entry in [start_index - 1, dirty_index], from the segments if need be.

        Of an index that a placeholder stands for: the offset after the placeholder.

        Raises:
            StorageError: As `read`.
        """
        known = self._positions.end_offset(index)
        if known is not None:
            return known
        return (await self.read(index, 1, index))[0].end_offset

    def is_in_memory(self, offset: Offset) -> bool:
        """Whether the entry that holds `offset` is in memory."""
        return any(cache.holds_offset(offset) for cache in (self._tail, self._read_cache, self._ahead))

    def holds(self, index: Index) -> bool:
        """Whether the entry is in memory, and was not read ahead."""
        return self._tail.holds(index) or self._read_cache.holds(index)

    def _index_in_memory(self, offset: Offset) -> Index | None:
        for cache in (self._tail, self._read_cache, self._ahead):
            found = cache.index_of_offset(offset)
            if found is not None:
                return found
        return None

    async def index_of_offset(self, offset: Offset) -> Index:
        """Return the entry that holds the record at `offset`, or the first one after it; dirty_index + 1 if none.

        Where a placeholder covers `offset`, its first index, or that of the start of the log where that is inside.

        Raises:
            LogTruncatedError: `offset` is below the start of the log.
            CorruptLogError: Damage on disk, or a disk that cannot be read.
            RefusedError: The disk does not answer, or there is no descriptor; ask again later.
        """

        async def attempt() -> Index:
            start_index = self._positions.start_index
            if offset < self._positions.start_offset:
                raise LogTruncatedError(
                    f"offset {offset} is below the start of the log, {self._positions.start_offset}"
                )
            if offset >= self._positions.next_offset:
                return Index(self._positions.dirty_index + 1)
            cached = self._index_in_memory(offset)
            if cached is not None:
                return max(cached, start_index)
            segment = self._segments.of_offset(offset)
            known = segment.index.index_at(offset)
            if known is not None:
                # As a rule: consumers go on where a batch ended, and a row is kept of each that is large.
                return max(Index(known), start_index)
            view = segment.view(segment.index.position_of_offset(offset))
            return max(await self._jobs.read(partial(_find_offset, view, offset)), start_index)

        return await self._undisturbed(attempt)

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp in the newest segment that holds a batch, written batches only; -1 if there is none."""
        return self._segments.newest_timestamp

    async def offset_of_timestamp(
        self, timestamp_ms: int, last: Index, *, first: Index = NO_INDEX
    ) -> tuple[Offset, int, Index] | None:
        """Return (base offset, max timestamp, index) of the first batch in [first, last] with so late a time.

        Raises:
            CorruptLogError, RefusedError: As `index_of_offset`.
        """

        async def attempt() -> tuple[Offset, int, Index] | None:
            for segment in list(self._segments):
                if segment.base_index > last:
                    break
                # Looked at anew for each one: what is below the start may be closed meanwhile.
                lowest = max(first, self._positions.start_index)
                if segment.index.max_timestamp < timestamp_ms or segment.last_index < lowest:
                    continue
                position = segment.index.position_of_timestamp(timestamp_ms)
                if segment.base_index < lowest:
                    position = max(position, segment.index.position_of_index(lowest))
                job = partial(_find_timestamp, segment.view(position), timestamp_ms, lowest, last)
                hit = await self._jobs.read(job)
                if hit is not None:
                    return hit
            return None

        return await self._undisturbed(attempt)

    async def max_timestamp(self, last: Index, *, first: Index = NO_INDEX) -> int | None:
        """Return the largest timestamp of a batch in [first, last], None if there is no batch.

        Raises:
            CorruptLogError, RefusedError: As `index_of_offset`.
        """

        async def attempt() -> int | None:
            best = -1
            for segment in list(self._segments):
                lowest = max(first, self._positions.start_index)
                if segment.base_index > last or lowest > last:
                    break
                if segment.last_index < lowest:
                    continue
                if segment.base_index < lowest:
                    view = segment.view(segment.index.position_of_index(lowest))
                    best = max(best, await self._jobs.read(partial(_max_timestamp, view, lowest, last)))
                    continue
                if segment.last_index <= last:
                    best = max(best, segment.index.max_timestamp)
                    continue
                position, before = segment.index.max_timestamp_before(last)
                job = partial(_max_timestamp, segment.view(position), lowest, last)
                best = max(best, before, await self._jobs.read(job))
            return best if best >= 0 else None

        return await self._undisturbed(attempt)

    async def _undisturbed(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat `attempt` until no truncation happened meanwhile; only then what it found or raised counts."""
        while True:
            # A closed log has no segments: to look among them would find nothing where there is something.
            self._jobs.check_open()
            truncations = self._positions.truncations
            try:
                found = await attempt()
            except CorruptLogError as error:
                if truncations == self._positions.truncations:
                    self._health.report_damage(error)
                    raise
                continue
            except StorageError:
                if truncations == self._positions.truncations:
                    raise
                continue
            except FileGoneError:
                # The segment has left the log since it was looked up; this ends: it is not found again.
                continue
            except OSError as error:
                if error.errno in NO_DESCRIPTORS:
                    raise OpenFilesError(f"{reason_of(error)}: raise `ulimit -n`") from error
                if truncations == self._positions.truncations:
                    damage = CorruptLogError(f"the disk cannot be read: {reason_of(error)}")
                    self._health.report_damage(damage)
                    raise damage from error
                continue
            if truncations == self._positions.truncations:
                return found


def _find_offset(view: SegmentView, offset: Offset) -> Index:
    for head in scan_heads(view):
        if head.record_count and head.base_offset + head.record_count > offset:
            return head.index
    raise CorruptLogError(f"{view.path}: offset {offset} is not where it should be", view.path)


def _find_timestamp(
    view: SegmentView, timestamp_ms: int, first: Index, last: Index
) -> tuple[Offset, int, Index] | None:
    for _, parsed in scan(view, LOOKUP_CHUNK_BYTES):
        entry = parsed.entry
        if entry.index > last:
            return None
        largest = max_timestamp_of(entry)
        if entry.index >= first and entry.kind is EntryKind.DATA and largest >= timestamp_ms:
            return entry.base_offset, largest, entry.index
    return None


def _max_timestamp(view: SegmentView, first: Index, last: Index) -> int:
    found = -1
    for _, parsed in scan(view, LOOKUP_CHUNK_BYTES):
        if parsed.entry.index > last:
            break
        if parsed.entry.index < first:
            continue
        found = max(found, max_timestamp_of(parsed.entry))
    return found
