"""Which entries of a log were read from its files and found whole since it was opened, and where they lie.

A consumer that reads such an entry again gets it from the file without another check: the kernel copies it from the
page cache to the socket (`storage.file_range`). Only large payloads are remembered: for small ones a call to the kernel
each costs more than to read and check them. What is remembered of all logs of a node shares one bound; the run that was
used longest ago gives way.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from model.ids import Index
from runtime.open_files import CachedFile
from storage.entry import HEADER_BYTES, Entry, EntryKind
from storage.file_range import FileRange, RangeSource, SentBytes
from storage.log_health import LogHealth
from storage.log_positions import LogPositions

# Smaller payloads are read and checked each time.
RANGE_BYTES_MIN = 32 * 1024
# Entries of one run, which is forgotten together; and what a run costs beside its entries, in entries.
_RUN_ENTRIES_MAX = 1024
_RUN_COST = 16


class VerifiedBudget:
    """Entries that are remembered of all logs of a node together.

    Attributes:
        limit: Never exceeded between two calls; an entry takes some 24 bytes; 0 remembers nothing.
        bytes_min: Payloads from so many bytes on are remembered.
        used: Remembered now, with what the runs themselves cost.
        sent: What left straight from files.
    """

    def __init__(self, limit: int, bytes_min: int = RANGE_BYTES_MIN) -> None:
        self.limit = limit
        self.bytes_min = bytes_min
        self.used = 0
        self.sent = SentBytes()
        # The one that was used longest ago comes first.
        self._runs: dict[_Run, None] = {}

    def begin(self, run: "_Run") -> None:
        """A run without entries is remembered."""
        self._runs[run] = None
        self._grow(_RUN_COST)

    def add(self, run: "_Run") -> None:
        """An entry was added to a run that is remembered."""
        self.touch(run)
        self._grow(1)

    def touch(self, run: "_Run") -> None:
        """`run` was used: the others give way first."""
        del self._runs[run]
        self._runs[run] = None

    def forget(self, run: "_Run") -> None:
        """`run` is not remembered any more."""
        del self._runs[run]
        self.used -= _RUN_COST + len(run.positions)
        assert self.used >= 0

    def _grow(self, count: int) -> None:
        self.used += count
        while self.used > self.limit:
            next(iter(self._runs)).forget()


class _Run:
    """Entries of one file, one after the other: where each payload begins, its size, and its records."""

    __slots__ = ("counts", "file", "first", "owner", "positions", "sizes")

    def __init__(self, owner: "VerifiedRanges", file: CachedFile, first: Index) -> None:
        self.owner = owner
        self.file = file
        self.first = first
        self.positions = array("q")
        self.sizes = array("i")
        self.counts = array("i")

    @property
    def end(self) -> int:
        """The index after its last entry."""
        return self.first + len(self.positions)

    def add(self, position: int, entry: Entry) -> None:
        self.positions.append(position + HEADER_BYTES)
        self.sizes.append(len(entry.payload))
        self.counts.append(entry.record_count)

    def forget(self) -> None:
        self.owner.drop(self)


class VerifiedRanges:
    """One log's. What was verified before a truncation, or before damage was found, counts no more."""

    def __init__(self, budget: VerifiedBudget, positions: LogPositions, health: LogHealth, source: RangeSource) -> None:
        self._budget = budget
        self._positions = positions
        self._health = health
        self._source = source
        self._truncations, self._damage_reports = positions.truncations, health.damage_reports
        # By their first entries; no two share an entry.
        self._runs: list[_Run] = []

    def note(self, entries: Sequence[Entry], places: Sequence[tuple[CachedFile, int]]) -> None:
        """These entries were read from these files and positions, and are whole."""
        # With less there is no room for a run of one entry.
        if self._budget.limit <= _RUN_COST:
            return
        self._forget_old()
        for entry, (file, position) in zip(entries, places, strict=True):
            if entry.kind is EntryKind.DATA and len(entry.payload) >= self._budget.bytes_min:
                self._note(entry, file, position)

    def _note(self, entry: Entry, file: CachedFile, position: int) -> None:
        at = self._position_of(entry.index)
        run = self._runs[at] if at >= 0 else None
        if run is not None and entry.index < run.end:
            if not run.file.is_nameless:
                return
            run.forget()
            at, run = at - 1, None
        if run is None or run.end != entry.index or run.file is not file or len(run.sizes) >= _RUN_ENTRIES_MAX:
            run = _Run(self, file, entry.index)
            self._runs.insert(at + 1, run)
            self._budget.begin(run)
        run.add(position, entry)
        self._budget.add(run)

    def holds(self, index: Index) -> bool:
        """Whether the entry may leave straight from its file."""
        return self._run_of(index) is not None

    def ranges(self, first: Index, last: Index, max_bytes: int) -> list[FileRange]:
        """Return the payloads of entries from `first` on until `last` or `max_bytes`, at least one; none if unknown.

        The caller knows that entries up to `last` are committed, so that no truncation removes them (S2).
        """
        run = self._run_of(first)
        if run is None or first > last:
            return []
        self._budget.touch(run)
        found: list[FileRange] = []
        size = 0
        for row in range(first - run.first, min(last + 1, run.end) - run.first):
            size += run.sizes[row]
            if found and size > max_bytes:
                break
            found.append(FileRange(self._source, run.file, run.positions[row], run.sizes[row], run.counts[row]))
        return found

    def _run_of(self, index: Index) -> _Run | None:
        self._forget_old()
        at = self._position_of(index)
        if at < 0 or index >= self._runs[at].end:
            return None
        run = self._runs[at]
        if run.file.is_nameless:
            # Retention, a snapshot or a truncation has removed the segment.
            run.forget()
            return None
        return run

    def _position_of(self, index: Index) -> int:
        return bisect_right(self._runs, index, key=_first) - 1

    def _forget_old(self) -> None:
        marks = self._positions.truncations, self._health.damage_reports
        if marks != (self._truncations, self._damage_reports):
            self._truncations, self._damage_reports = marks
            self.forget_all()

    def forget_all(self) -> None:
        """The log is closed, or nothing that was verified counts any more."""
        for run in list(self._runs):
            run.forget()

    def drop(self, run: _Run) -> None:
        """Forget one run."""
        self._runs.remove(run)
        self._budget.forget(run)


def _first(run: _Run) -> Index:
    return run.first
