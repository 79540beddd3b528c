"""What a crash left of a log: find where it starts, read the segments, cut a torn tail, refuse or isolate damage.

The flushed mark is the largest `flushed` in any valid header: everything up to it was once fsynced. Where the first
damage is at or below the mark, durable bytes have changed: nothing is touched and the log is refused, unless the
caller asked to isolate the damage. Above the mark the damage is what a power loss leaves of bytes that no fsync had
covered; they are cut there, also when later un-fsynced bytes happened to survive behind a hole (RFC 0002, 7).

Blocking: runs on a worker, before the log is shared.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

from model.ids import NO_INDEX, GroupId, Index, Offset, Term
from runtime.open_files import OpenFiles
from storage.compacted_mark import read_compacted_mark
from storage.damaged_files import copy_damaged_end, damaged_copies, set_segments_aside, set_snapshot_aside
from storage.errors import CorruptLogError, DamagedLogError, ForeignSegmentError, MismatchedLogError
from storage.index_file import TEMPORARY_SUFFIX, index_path, remove_index_file
from storage.log_start import ORIGIN, LogStart
from storage.options import LogOptions
from storage.segment import Segment
from storage.segment_index import TermStart
from storage.segment_loader import NamedSegment, SegmentLoader, list_segments
from storage.segment_swap import finish_swaps
from storage.snapshot_file import Snapshot, read_snapshot, snapshot_path

_REWRITE_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecoveryRequest:
    """What `Log.open` was asked for.

    Attributes:
        known_index: Entries up to here had been fsynced and never truncated.
        isolate: Open the log without what is damaged below the mark.
        rescan: Paths of segments whose index files are not to be trusted.
        now_ms: The wall clock.
    """

    known_index: Index
    isolate: bool
    rescan: frozenset[str]
    now_ms: int


@dataclass(slots=True)
class RecoveredLog:
    """The segments in order, everything in them durable, and what was learned on the way.

    Attributes:
        start: Where the log starts; `segments` may begin before it.
        snapshot: The newest one.
        cut_bytes: Bytes that are no longer in the log.
        damage: What was wrong with them.
        is_isolated: It had been durable, and copies of it are kept.
        has_damaged_copies: Something was isolated, now or earlier, and not forgotten.
        compacted_index: How far the log may be compacted.
    """

    start: LogStart
    snapshot: Snapshot | None
    segments: list[Segment]
    terms: list[TermStart]
    last_index: Index
    next_offset: Offset
    cut_bytes: int
    damage: str | None
    is_isolated: bool
    has_damaged_copies: bool
    compacted_index: Index


class LogRecovery:
    """One recovery of one directory."""

    def __init__(
        self, files: OpenFiles, directory: str, group: GroupId, options: LogOptions, request: RecoveryRequest
    ) -> None:
        self._files = files
        self._directory = directory
        self._group = group
        self._options = options
        self._request = request
        self._cut_bytes = 0

    def run(self) -> RecoveredLog:
        """Recover.

        Raises:
            DamagedLogError: Durable bytes are damaged, and they are not to be isolated; nothing was changed.
            CorruptLogError: Segments overlap, or a damaged snapshot is all there is; nothing was changed.
            ForeignSegmentError: A segment is another log's; nothing was changed.
            UnknownFormatError: A newer version wrote something here; nothing was changed.
            MismatchedLogError: The log ends before what was known to be in it; nothing was changed.
        """
        finish_swaps(self._files, self._directory)
        named = list_segments(self._files, self._directory)
        snapshot, flaw = self._find_start(named)
        compacted = read_compacted_mark(self._files, self._directory)
        start = snapshot.start if snapshot is not None else ORIGIN
        below, rest = self._split(named, start)
        with ExitStack() as opened:
            loader, damage, strays = self._load(rest, start, opened)
            below, rest = [*below, *rest[:strays]], rest[strays:]
            flaw = self._flaw(loader, rest, start, damage) or flaw
            if flaw is not None and not self._request.isolate:
                raise DamagedLogError(flaw, self._lost_end(loader))
            # What ends before the start, or is not of its log, is what an interrupted install had still to remove.
            is_behind = loader.next_index < start.index or not self._fits(loader, start)
            # The state went with the snapshot, and it cannot be derived from what compaction has left.
            is_stateless = snapshot is None and flaw is not None and compacted != NO_INDEX
            is_behind = is_behind or is_stateless
            last_index = start.prev_index if is_behind else Index(loader.next_index - 1)
            kept = [] if is_behind else self._kept(loader, start)
            # I4 of RFC 0002: nothing was changed so far. The files to be removed hold nothing of the log, the kept ones
            # hold all of it.
            assert is_behind or all(each.base_index < start.index for each in below)
            _check_kept(kept, start, last_index)
            if flaw is None:
                self._check_known(named, last_index)
            else:
                loaded = [] if is_stateless else loader.segments
                self._isolate(loaded, rest, with_snapshot=snapshot is None)
            if is_behind:
                self._remove_all(named)
            else:
                self._remove(below)
            self._cut(named, kept, is_damaged=damage is not None)
            self._rewrite_tail(kept, loader.mark)
            self._remove_leftovers(kept)
            opened.pop_all()
        # No step that changed the disk has changed what was found on it.
        _check_kept(kept, start, last_index)
        for segment in loader.segments:
            if segment not in kept:
                segment.file.close()
        return RecoveredLog(
            start,
            snapshot,
            kept,
            loader.terms if kept else [],
            last_index,
            start.base_offset if is_behind else loader.next_offset,
            self._cut_bytes,
            flaw or damage,
            flaw is not None,
            bool(damaged_copies(self._files, self._directory)),
            last_index if compacted is None else compacted,
        )

    def _load(
        self, named: list[NamedSegment], start: LogStart, opened: ExitStack
    ) -> tuple[SegmentLoader, str | None, int]:
        """Load the segments; return the loader, the first damage, and how many at the beginning were left out.

        What precedes a gap below the start is left out: it is what a power loss brought back of removed segments.

        The last segment that holds anything is read, whatever its index file says: that file goes, because the segment
        will be written to, and nothing tells any more that all of it had been fsynced.
        """
        request, rescan, strays = self._request, self._request.rescan, 0
        while True:
            loader = SegmentLoader(
                self._files, self._options, self._group, start, request.known_index, request.now_ms, rescan
            )
            with ExitStack() as loaded:
                damage = loader.load(named[strays:], loaded)
                if loader.strays:
                    strays += loader.strays
                    continue
                last = next((each for each in reversed(loader.segments) if each.size > 0), None)
                if last is None or not last.has_index_file:
                    opened.enter_context(loaded.pop_all())
                    return loader, damage, strays
            rescan |= {last.path}

    # -- what is there --------------------------------------------------------------------------------------------

    def _find_start(self, named: list[NamedSegment]) -> tuple[Snapshot | None, str | None]:
        """Return the snapshot, and what is wrong with it if it is damaged."""
        try:
            return read_snapshot(self._files, self._directory), None
        except CorruptLogError as error:
            # Without segments nothing tells how much was lost, and so for whom this replica may vote.
            if not named:
                raise
            return None, str(error)

    def _split(self, named: list[NamedSegment], start: LogStart) -> tuple[list[NamedSegment], list[NamedSegment]]:
        """Return the segments wholly below the start, by their names, and the others.

        The last one before the start counts to the others: it tells whether the log is the snapshot's.

        Raises:
            CorruptLogError: Two begin at the same entry.
        """
        for earlier, later in pairwise(named):
            if earlier.base_index == later.base_index:
                raise CorruptLogError(f"{later.path} overlaps the one before, which begins at the same entry")
        first = sum(later.base_index < start.index for later in named[1:])
        return named[:first], named[first:]

    def _fits(self, loader: SegmentLoader, start: LogStart) -> bool:
        """Whether the log is the one that the snapshot was taken of: a crash may have interrupted an install.

        Raises:
            ForeignSegmentError: It is neither that log nor one that an install would have removed.
        """
        first = loader.segments[0] if loader.segments else None
        if first is None or first.base_index >= start.index:
            return True
        before = [each.term for each in loader.terms if each.first_index < start.index]
        if before[-1] != start.prev_term:
            return False
        holder = next((segment for segment in loader.segments if segment.last_index >= start.index), None)
        if holder is None:
            found = loader.next_offset
        else:
            found = holder.base_offset if holder.base_index == start.index else loader.offset_at_start(holder)
        if found != start.base_offset:
            raise ForeignSegmentError(
                f"{first.path}: entry {start.index} is at offset {found}, the snapshot says {start.base_offset}"
            )
        return True

    @staticmethod
    def _kept(loader: SegmentLoader, start: LogStart) -> list[Segment]:
        """Return the segments of the log: not those without an entry, nor those wholly below the start."""
        filled = [segment for segment in loader.segments if segment.size > 0]
        below = sum(segment.base_index <= start.index for segment in filled[1:])
        return filled[below:]

    @staticmethod
    def _flaw(loader: SegmentLoader, named: list[NamedSegment], start: LogStart, damage: str | None) -> str | None:
        """Return why the damage is not what a power loss leaves; None if it is, or if there is none."""
        if damage is None:
            return None
        if named[0].base_index > start.index:
            return damage
        # What lies below the start is not needed any more, damaged or not.
        if loader.next_index <= loader.mark and start.index <= loader.mark:
            return f"{damage}; entries up to {loader.mark} had been fsynced"
        return None

    def _lost_end(self, loader: SegmentLoader) -> tuple[Index, Term]:
        return max(loader.lost_index, loader.mark), loader.lost_term

    def _check_known(self, named: list[NamedSegment], last_index: Index) -> None:
        known = self._request.known_index
        # A replica that is filled again after an isolation holds less than it once did.
        if last_index >= known or damaged_copies(self._files, self._directory):
            return
        held = f"ends at entry {last_index}" if named else "holds no segment"
        raise MismatchedLogError(
            f"{self._directory} {held}, but the kvstore says that this log held entry {known}, which is"
            " committed: its segments were lost or moved away. A replica without its log would forget what it has"
            " acknowledged, so it does not start; bring the whole data directory back, parts are not enough"
        )

    # -- what is changed ------------------------------------------------------------------------------------------

    def _isolate(self, loaded: list[Segment], named: list[NamedSegment], *, with_snapshot: bool) -> None:
        """Keep copies of what is damaged and of all behind it."""
        good = [segment for segment in loaded if segment.size > 0]
        kept = {segment.path for segment in good}
        if with_snapshot and self._files.exists(snapshot_path(self._directory)):
            set_snapshot_aside(self._files, self._directory)
        lost = [each for each in named if each.path not in kept]
        self._cut_bytes += sum(self._size_of(each.path) for each in lost)
        set_segments_aside(self._files, self._directory, lost)
        if good:
            copy_damaged_end(self._files, self._directory, good[-1])

    def _remove(self, below: list[NamedSegment]) -> None:
        for each in below:
            self._unlink(index_path(each.path))
            self._unlink(each.path)
        if below:
            self._files.fsync_dir(self._directory)

    def _unlink(self, path: str) -> None:
        if self._files.exists(path):
            self._files.unlink(path)

    def _remove_all(self, named: list[NamedSegment]) -> None:
        """Newest first, each durably: what a crash leaves must not look as if its beginning had been lost."""
        for each in reversed(named):
            if self._files.exists(each.path):
                self._unlink(index_path(each.path))
                self._unlink(each.path)
                self._files.fsync_dir(self._directory)

    def _cut(self, named: list[NamedSegment], kept: list[Segment], *, is_damaged: bool) -> None:
        """Remove what lies behind the last good entry: newest file first, then the end of the last one kept.

        Without damage there are only zeros: of a closed segment they go, the active one will be written there.
        """
        paths = {segment.path for segment in kept}
        for each in reversed(named):
            if each.path not in paths and self._files.exists(each.path):
                self._unlink(index_path(each.path))
                self._cut_bytes += self._size_of(each.path)
                self._files.unlink(each.path)
                self._files.fsync_dir(self._directory)
        for segment in kept if is_damaged else kept[:-1]:
            excess = segment.file.size() - segment.size
            if excess > 0:
                remove_index_file(self._files, self._directory, index_path(segment.path))
                with segment.file.pinned():
                    segment.file.truncate(segment.size)
                    segment.file.fsync()
                if segment is kept[-1]:
                    self._cut_bytes += excess

    def _size_of(self, path: str) -> int:
        file = self._files.open(path)
        try:
            return file.size()
        finally:
            file.close()

    def _rewrite_tail(self, kept: list[Segment], mark: Index) -> None:
        """Write the kept bytes above the mark again, the same in the same place, and fsync.

        A page whose fsync failed before the crash reads back clean from the cache: only a new write makes the
        kernel write it again (counterexample 9); a copy elsewhere would have to be swapped in (34).
        """
        for segment in kept:
            if segment.last_index <= mark:
                continue
            with segment.file.pinned():
                position = segment.index.position_of_index(mark + 1)
                # Section 7, 6: the kept bytes from the mark on, to the last of them and not a byte more.
                assert position < segment.size
                while position < segment.size:
                    data = segment.file.pread(min(_REWRITE_CHUNK_BYTES, segment.size - position), position)
                    segment.file.pwritev([data], position)
                    position += len(data)
                assert position == segment.size
                segment.file.fsync()
        if kept:
            self._files.fsync_dir(self._directory)

    def _remove_leftovers(self, kept: list[Segment]) -> None:
        """Remove temporary files, and index files that no longer or not for long describe a closed segment."""
        closed = {index_path(segment.path) for segment in kept[:-1]}
        if kept:
            # I3 of RFC 0002: it will be written to, so `_load` has read it whatever its index file says.
            assert not kept[-1].has_index_file
            kept[-1].closed_ms = None
            kept[-1].file.set_active(True)
        removed = False
        for name in self._files.listdir(self._directory):
            path = f"{self._directory}/{name}"
            if name.endswith(TEMPORARY_SUFFIX) or (name.endswith(".index") and path not in closed):
                self._files.unlink(path)
                removed = True
        if removed:
            self._files.fsync_dir(self._directory)


def _check_kept(kept: list[Segment], start: LogStart, last_index: Index) -> None:
    """Assert section 2: the log from its start to its last entry is its segments, one after the other."""
    assert last_index >= start.prev_index
    assert all(later.base_index == earlier.last_index + 1 for earlier, later in pairwise(kept))
    if kept:
        assert kept[0].base_index <= start.index
        assert kept[-1].last_index == last_index
    else:
        assert last_index == start.prev_index
