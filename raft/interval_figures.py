"""What one replica has done since the last telemetry record (`RaftOptions.keeps_figures`); by kind of entry."""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from model.duration_histogram import DurationHistogram, Durations
from model.ids import ConsistencyLevel
from raft.call_figures import COUNTED_LEVELS, AppendedEntries, count_appended
from storage.entry import EntryKind

K = TypeVar("K")


class TakenFigures(NamedTuple):
    """One interval. Kinds without anything are left out.

    Attributes:
        since: Loop time at which it began.
        replicate: How long replicate calls took that ended well here, from the call to the answer, by level and kind:
            waiting for memory and for others is in it.
        replicate_failed: How many calls ended with an error, by level and kind.
        apply: How long it took to apply committed entries, by kind; one duration per step.
        apply_failed: How many applies were refused, by kind.
        leader_appended, follower_appended: Entries written in these roles, by kind.
        in_sync_min: The smallest number of replicas in sync, itself included, that a leader saw before a follower came
            back; None: none came back.
        fsync: How long fsyncs of the log took on the disk.
        recovery_bytes: Bytes sent to followers that were behind.
    """

    since: float
    replicate: dict[ConsistencyLevel, dict[EntryKind, Durations]]
    replicate_failed: dict[ConsistencyLevel, dict[EntryKind, int]]
    apply: dict[EntryKind, Durations]
    apply_failed: dict[EntryKind, int]
    leader_appended: dict[EntryKind, AppendedEntries]
    follower_appended: dict[EntryKind, AppendedEntries]
    in_sync_min: int | None
    fsync: Durations | None
    recovery_bytes: int

    def replicated(self, level: ConsistencyLevel, kind: EntryKind) -> Durations | None:
        """Return the durations of calls at a level with entries of one kind; None: there were none."""
        return self.replicate[level].get(kind)


class IntervalFigures:
    """One replica's. A place is made when it is first used: most replicas see one kind and one level."""

    __slots__ = (
        "_apply",
        "_apply_failed",
        "_follower_appended",
        "_in_sync_min",
        "_leader_appended",
        "_replicate",
        "_replicate_failed",
        "_since",
        "fsync",
        "recovery_bytes",
    )

    def __init__(self, now: float) -> None:
        self._since = now
        self._replicate: dict[ConsistencyLevel, dict[EntryKind, DurationHistogram]] = {
            level: {} for level in COUNTED_LEVELS
        }
        self._replicate_failed: dict[ConsistencyLevel, dict[EntryKind, int]] = {level: {} for level in COUNTED_LEVELS}
        self._apply: dict[EntryKind, DurationHistogram] = {}
        self._apply_failed: dict[EntryKind, int] = {}
        self._leader_appended = defaultdict[EntryKind, AppendedEntries](AppendedEntries)
        self._follower_appended = defaultdict[EntryKind, AppendedEntries](AppendedEntries)
        self._in_sync_min: int | None = None
        self.fsync = DurationHistogram()
        self.recovery_bytes = 0

    def replicated(self, level: ConsistencyLevel, kind: EntryKind, seconds: float) -> None:
        """A call has ended well."""
        _place(self._replicate[level], kind).observe(seconds)

    def replicate_failed(self, level: ConsistencyLevel, kind: EntryKind) -> None:
        """A call has ended with an error."""
        failed = self._replicate_failed[level]
        failed[kind] = failed.get(kind, 0) + 1

    def applied(self, kind: EntryKind, seconds: float) -> None:
        """Entries of one kind were applied in one step."""
        _place(self._apply, kind).observe(seconds)

    def apply_failed(self, kind: EntryKind) -> None:
        """Entries of one kind could not be applied."""
        self._apply_failed[kind] = self._apply_failed.get(kind, 0) + 1

    def appended_as_leader(self, appended: Mapping[EntryKind, AppendedEntries]) -> None:
        """The leader has written a round."""
        count_appended(self._leader_appended, appended)

    def appended_as_follower(self, appended: Mapping[EntryKind, AppendedEntries]) -> None:
        """A follower has written what its leader has sent."""
        count_appended(self._follower_appended, appended)

    def saw_in_sync(self, count: int) -> None:
        """A leader had so many replicas in sync, itself included, just before another one came back."""
        self._in_sync_min = _smaller(self._in_sync_min, count)

    def take(self, now: float) -> TakenFigures:
        """Return the interval that ends at loop time `now`, and begin the next one."""
        taken = TakenFigures(
            self._since,
            {level: _take(each) for level, each in self._replicate.items()},
            {level: dict(each) for level, each in self._replicate_failed.items()},
            _take(self._apply),
            self._apply_failed,
            dict(self._leader_appended),
            dict(self._follower_appended),
            self._in_sync_min,
            self.fsync.take(),
            self.recovery_bytes,
        )
        for each in self._replicate_failed.values():
            each.clear()
        self._apply_failed = {}
        self._leader_appended.clear()
        self._follower_appended.clear()
        self._since, self._in_sync_min, self.recovery_bytes = now, None, 0
        return taken

    def put_back(self, taken: TakenFigures) -> None:
        """The interval has reached nobody: the one under way begins where it began, or where an earlier one did."""
        self._since = min(self._since, taken.since)
        for level, by_kind in taken.replicate.items():
            _put_back(self._replicate[level], by_kind)
        for level, failed in taken.replicate_failed.items():
            _add(self._replicate_failed[level], failed)
        _put_back(self._apply, taken.apply)
        _add(self._apply_failed, taken.apply_failed)
        for into, appended in (
            (self._leader_appended, taken.leader_appended),
            (self._follower_appended, taken.follower_appended),
        ):
            for kind, each in appended.items():
                into[kind].add(each)
        if taken.in_sync_min is not None:
            self._in_sync_min = _smaller(self._in_sync_min, taken.in_sync_min)
        self.fsync.put_back(taken.fsync)
        self.recovery_bytes += taken.recovery_bytes


def _place(histograms: dict[EntryKind, DurationHistogram], kind: EntryKind) -> DurationHistogram:
    found = histograms.get(kind)
    if found is None:
        found = histograms[kind] = DurationHistogram()
    return found


def _take(histograms: dict[EntryKind, DurationHistogram]) -> dict[EntryKind, Durations]:
    taken = {kind: histogram.take() for kind, histogram in histograms.items()}
    return {kind: each for kind, each in taken.items() if each is not None}


def _put_back(histograms: dict[EntryKind, DurationHistogram], taken: dict[EntryKind, Durations]) -> None:
    for kind, each in taken.items():
        _place(histograms, kind).put_back(each)


def _add(into: dict[K, int], more: dict[K, int]) -> None:
    for key, count in more.items():
        into[key] = into.get(key, 0) + count


def _smaller(before: int | None, count: int) -> int:
    return count if before is None else min(before, count)
